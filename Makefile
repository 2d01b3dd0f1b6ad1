# Peregrine. `make help` lists the targets. See README.md.
#
# One tree of sources, three builds of it:
#   build/kernel/   freestanding: the images, build/peregrine.elf (the player) and build/NAME/peregrine.elf
#   build/host/     optimised for this CPU's baseline: peregrine-linux, benchmarks
#   build/test/     ASan + UBSan: unit tests, fuzz targets
SHELL := /bin/bash
.SHELLFLAGS := -o pipefail -c
.DELETE_ON_ERROR:
BUILD ?= build
# One name for a folder: make knows an object, and what it depends on, by its path.
override BUILD := $(patsubst $(CURDIR)/%,%,$(BUILD))
STACK ?= own
PROGRAM ?= player
PY := /usr/bin/python3
export STACK BUILD PROGRAM
export PYTHONPATH := $(CURDIR):$(CURDIR)/tools

# A first `make` on a machine that is not set up says so before the first command fails.
COMMANDS_iso := grub-mkrescue xorriso mformat
COMMANDS_fuzz := clang
ifneq ($(filter-out setup run contest trade test check prove clean dist help,$(or $(MAKECMDGOALS),all)),)
COMMANDS := nasm $(PY) $(if $(filter default,$(origin CC)),gcc,$(firstword $(CC))) \
	$(foreach goal,$(MAKECMDGOALS),$(COMMANDS_$(goal)))
MISSING := $(firstword $(foreach tool,$(COMMANDS),$(if $(shell command -v $(tool)),,$(notdir $(tool)))))
ifdef MISSING
$(error make: there is no $(MISSING) here; tools/setup.sh $(if $(filter $(COMMANDS_fuzz),$(MISSING)),check,run) \
installs what the build needs)
endif
endif

MK := tools/workshop/make
ALONE_SHOWN := $(MK)/alone.sh $(MK)/progress.sh

.DEFAULT_GOAL := all

include $(MK)/words.mk
ifdef ALONE
.PHONY: $(ALONE) alone
$(ALONE): alone
	@:
alone:
	+@$(MK)/alone.sh $(MAKE) --no-print-directory $(MAKECMDGOALS)
else
include $(patsubst %,$(MK)/%.mk,flags program image guest time host bench transport fuzz net deploy probe wire \
	sim soak prove linux distributions mutate tests gve install)

# `make PROGRAM=NAME` makes those of another program in build/NAME/.
all: $(IMAGE)/peregrine.elf $(IMAGE)/peregrine.bzImage ## the image, build/peregrine.elf and .bzImage; PROGRAM=, STACK=

.PHONY: all iso setup run contest trade check clean help
help: ## this list
	@sed -n 's/^\([a-z][a-z0-9-]*\):.*## \(.*\)/\1 \2/p' $(MAKEFILE_LIST) | sort | \
		while read -r target text; do printf '  %-20s %s\n' "$$target" "$$text"; done
setup: ## installs the packages that the build and the tests need
	@tools/setup.sh check

# A game asks the settings' parser only if there are SETTINGS of the user's; any other program is asked for its ports.
RUN_NEEDS = $(IMAGE)/peregrine.elf $(IMAGE)/peregrine.bzImage $(if $(filter player,$(PROGRAM)),\
	$(if $(value SETTINGS),$(CHECK_SETTINGS)),$(call linux_program,$(PROGRAM)))

# Set-up first, then a second make that may assume it. A bad word of `run` is reported before anything is built. The
# variables of `run` come from the environment or from the command line, which make exports by itself.
run: ## plays a game in QEMU, or runs PROGRAM=NAME there; tools/run.py --help lists its variables
	@tools/setup.sh run
	@$(PY) tools/run.py --check
	@$(ALONE_SHOWN) $(MAKE) --no-print-directory -j$$(nproc) $(RUN_NEEDS)
	@$(PY) tools/run.py
contest: ## serves a contest with sample players and a board until Ctrl-C; it goes on where it ended. STORE=FILE
	@tools/setup.sh run
	@$(ALONE_SHOWN) $(MAKE) --no-print-directory -j$$(nproc) $(BUILD)/host/peregrine-linux
	@$(PY) -m servers.players.demo
trade: ## the program trade in QEMU at a simulated exchange, with a live page, until Ctrl-C. RATE=200 SETTINGS=
	@tools/setup.sh run
	@$(ALONE_SHOWN) $(MAKE) --no-print-directory -j$$(nproc) PROGRAM=trade \
		$(BUILD)/trade/peregrine.elf $(BUILD)/host/trade-linux
	@$(PY) -m workshop.vm.trade
check: setup ## `make test`, then guests, games, fuzzing, foreign stacks, round trips. T=NAME
	@$(MAKE) --no-print-directory check-ready

clean: ## removes build/
	rm -rf $(BUILD)
endif
