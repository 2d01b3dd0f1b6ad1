# The wire probe as a vhost-user back end: tools/wire_probe.py --wire vhost-user.
VHOST_PROBE := $(BUILD)/host/tools/workshop/probe/vhost_probe
$(VHOST_PROBE): $(patsubst %.c,$(BUILD)/host/%.o,$(wildcard tools/workshop/probe/vhost_*.c) net/ip/checksum.c)
	$(CC) -o $@ $^
# Times an echo by sockets of this machine.
ECHO_PROBE := $(BUILD)/host/tools/workshop/probe/echo_probe
$(ECHO_PROBE): $(BUILD)/host/tools/workshop/probe/echo_probe.o
	$(CC) -o $@ $^
# The load of `peregrine bench`.
LOAD := $(BUILD)/host/tools/deploy/load
$(LOAD): $(patsubst %.c,$(BUILD)/host/%.o,tools/deploy/load.c net/http/response.c net/http/chunks.c base/text.c)
	$(CC) -o $@ $^
NEEDS_guest += $(VHOST_PROBE) $(ECHO_PROBE)

# The images of further programs with the other stack.
OTHER_ECHO_IMAGE := $(BUILD)/other/echo/peregrine.elf
OTHER_TIME_IMAGE := $(BUILD)/other/time/peregrine.elf
OTHER_TRADE_IMAGE := $(BUILD)/other/trade/peregrine.elf
$(OTHER_ECHO_IMAGE) $(OTHER_TIME_IMAGE) $(OTHER_TRADE_IMAGE): $(BUILD)/other/%/peregrine.elf: FORCE
	@$(MAKE) -s --no-print-directory BUILD=$(BUILD)/other STACK=$(filter-out $(STACK),own lwip) PROGRAM=$* \
		LWIP=$(LWIP) $@

WIRE_NEEDS := $(VHOST_PROBE) $(addprefix $(BUILD)/,peregrine.elf other/peregrine.elf) \
	$(patsubst %,$(BUILD)/%/peregrine.elf,echo time digest trade) $(OTHER_ECHO_IMAGE) $(OTHER_TIME_IMAGE) \
	$(OTHER_TRADE_IMAGE) $(LINUX_PROGRAMS)
bench-wire: $(WIRE_NEEDS) ## the wire without QEMU's main loop: build/bench/wire.json
	$(PY) tools/wire_probe.py --wire vhost-user own lwip guest tuned
bench-half-rtt: $(WIRE_NEEDS) $(ECHO_PROBE) ## half round trips of echoes by payload: build/bench/half_rtt.json
	$(PY) tools/wire_probe.py --table own lwip guest linux
bench-load: $(LOAD) ## `peregrine bench` beside wrk; fails if they are more than 5 % apart
	$(PY) tests/bench/bench_load.py
.PHONY: bench-wire bench-half-rtt bench-load
