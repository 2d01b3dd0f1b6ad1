# The program that is linked: a folder app/NAME/ with a program.c. `make PROGRAM=NAME`; a further program is a further
# folder. Rooms of app/ without a program.c (service/, matcher/, nasdaq/) are libraries: what a program does not use of
# them is not linked.
PROGRAMS := $(sort $(patsubst app/%/program.c,%,$(wildcard app/*/program.c)))

# PROGRAM=/path/to/NAME: a program outside of this tree. Below OUTSIDE its folder stands as app/NAME, and its test as
# tests/unit/NAME_test.c. Make and the compiler look there after this tree.
OUTSIDE :=
ifneq ($(findstring /,$(PROGRAM)),)
ifneq ($(words $(PROGRAM)),1)
$(error PROGRAM=$(PROGRAM): make does not build in a folder whose path has a blank)
endif
PROGRAM_FOLDER := $(abspath $(PROGRAM))
ifeq ($(wildcard $(PROGRAM_FOLDER)/program.c),)
$(error PROGRAM=$(PROGRAM): there is no $(PROGRAM_FOLDER)/program.c)
endif
override PROGRAM := $(notdir $(PROGRAM_FOLDER))
ifneq ($(wildcard app/$(PROGRAM) $(PROGRAM)),)
$(error PROGRAM=$(PROGRAM_FOLDER): this tree has a folder of this name, $(wildcard app/$(PROGRAM) $(PROGRAM)))
endif
OUTSIDE := $(abspath $(BUILD))/outside
$(shell mkdir -p $(OUTSIDE)/app $(OUTSIDE)/tests/unit && ln -sfn $(PROGRAM_FOLDER) $(OUTSIDE)/app/$(PROGRAM) && \
	ln -sfn $(PROGRAM_FOLDER)/$(PROGRAM)_test.c $(OUTSIDE)/tests/unit)
VPATH := $(OUTSIDE)
STRICT_FOLDERS += $(OUTSIDE)/app/%
PROGRAMS += $(PROGRAM)
endif
# program_files NAME: a program's sources, as if they stood in this tree.
program_files = $(wildcard app/$1/*.c) $(if $(OUTSIDE),$(patsubst $(OUTSIDE)/%,%,$(filter-out %_test.c, \
	$(wildcard $(OUTSIDE)/app/$1/*.c))))
ifeq ($(and $(filter $(PROGRAMS),$(PROGRAM)),$(filter 1,$(words $(PROGRAM)))),)
$(error PROGRAM=$(PROGRAM): there is no such program; use one of: $(PROGRAMS))
endif

# net/lwip/lwipopts.h: LWIP_PORT_CONNECTIONS.
ifeq ($(STACK),lwip)
ifneq ($(filter digest,$(PROGRAM)),)
$(error PROGRAM=$(PROGRAM) needs 264 connections, and the port of lwIP has 16: use STACK=own)
endif
endif

APP_LIBRARY := $(filter-out $(foreach name,$(PROGRAMS),$(wildcard app/$(name)/*.c)),$(wildcard app/*/*.c))
program_sources = $(APP_LIBRARY) $(call program_files,$1)
APP_SOURCES := $(call program_sources,$(PROGRAM))
# Tests and benchmarks are those of the player, whatever is linked into the image.
APP_TESTED := $(call program_sources,player)

# The tables of the settings, pure, for whatever reads settings without a kernel.
SETTINGS_SOURCES := net/settings.c kernel/settings.c
