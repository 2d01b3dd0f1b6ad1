# Peregrine. `make run` plays, `make check` tests; both set up the machine first. See README.md.
#
# One tree of sources, three builds of it:
#   build/kernel/   freestanding: peregrine.elf (and peregrine.iso)
#   build/host/     optimised for this CPU's baseline: peregrine-linux, benchmarks
#   build/test/     ASan + UBSan: unit tests, fuzz targets
SHELL := /bin/bash
BUILD ?= build
STACK ?= own
PY := /usr/bin/python3

all: $(BUILD)/peregrine.elf

include tools/make/flags.mk
include tools/make/image.mk
include tools/make/guest.mk
include tools/make/host.mk
include tools/make/bench.mk
include tools/make/transport.mk
include tools/make/fuzz.mk
include tools/make/net.mk
include tools/make/deploy.mk
include tools/make/wire.mk
include tools/make/sim.mk
include tools/make/linux.mk
include tools/make/tests.mk

.PHONY: all iso setup run check clean
setup:
	@tools/setup.sh

# Set-up first, then a second make that may assume it. A bad word of `run` is told before anything is built.
run: setup
	@$(PY) tools/run.py --check
	@$(MAKE) --no-print-directory -s -j$$(nproc) run-ready
check: setup
	@$(MAKE) --no-print-directory -s -j$$(($$(nproc) + 1)) check-ready

clean:
	rm -rf $(BUILD)
