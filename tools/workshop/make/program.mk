# The program that is linked: a folder app/NAME/ with a program.c. `make PROGRAM=NAME`; a further program is a further
# folder. Rooms of app/ without a program.c (service/, matcher/, nasdaq/) are libraries: what a program does not use of
# them is not linked.
PROGRAMS := $(sort $(patsubst app/%/program.c,%,$(wildcard app/*/program.c)))
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
program_sources = $(APP_LIBRARY) $(wildcard app/$1/*.c)
APP_SOURCES := $(call program_sources,$(PROGRAM))
# Tests and benchmarks are those of the player, whatever is linked into the image.
APP_TESTED := $(call program_sources,player)

# The tables of the settings, pure, for whatever reads settings without a kernel.
SETTINGS_SOURCES := net/settings.c kernel/settings.c
