# The words of the command line: a variable that nothing reads and a target that does not exist are refused at once, by
# the first make of several.
ifeq ($(MAKELEVEL),0)

# FOREIGN: variables of the programs that are started here.
FOREIGN := LANG LC_% PATH TMPDIR CCACHE_% %_OPTIONS
GIVEN := $(foreach name,$(.VARIABLES),$(if $(filter command,$(firstword $(origin $(name)))),$(name)))
is_read = $(shell grep -rlwF --include=*.mk --include=*.py --include=*.sh -e '$1' Makefile tools tests net/lwip)
UNREAD := $(strip $(foreach name,$(filter-out $(FOREIGN),$(GIVEN)),$(if $(call is_read,$(name)),,$(name))))
ifneq ($(UNREAD),)
$(error make: $(firstword $(UNREAD)): no makefile and no tool reads a variable of this name; tools/run.py --help lists \
those of `make run`)
endif

# A goal with a slash is a file; all others are phony.
GOALS := $(strip $(foreach goal,$(MAKECMDGOALS),$(if $(findstring /,$(goal)),,$(goal))))
ifneq ($(GOALS),)
UNKNOWN := $(filter-out $(shell sed -n 's/^\.PHONY://p' Makefile tools/workshop/make/*.mk net/lwip/lwip.mk),$(GOALS))
ifneq ($(UNKNOWN),)
$(error make: there is no target $(firstword $(UNKNOWN)); `make help` lists the targets)
endif
endif

# ALONE: the goals, if all of them build and end, so that one make at a time does so in a tree. `run` and its like hold
# the lock only while they build. A dry run (-n, -q) holds none.
ENDING := all clean deb dist docs host install iso needs survey unit
IS_DRY := $(strip $(foreach flag,n q,$(findstring $(flag),$(firstword -$(MAKEFLAGS)))))
ALONE := $(if $(filter-out $(ENDING),$(GOALS))$(IS_DRY),,$(or $(MAKECMDGOALS),all))

endif
