# Whole connections over a bad network, in virtual time: tests/sim/.
SIMULATOR := $(patsubst %,tests/lib/%.c,simulator endpoint network transit netdev_memory frame_pool recording)
UNIT_EXTRA_tcp_pair_test := $(SIMULATOR)
SIM_OBJECTS := $(patsubst %.c,$(BUILD)/test/%.o,tests/sim/sim.c $(SIMULATOR) $(wildcard base/*.c) \
	$(filter-out net/own/transport.c,$(NET_SOURCES_own)))
# One program holds both stacks: lwIP's names (tcp_connect, ...) stay inside, only net/transport.h's come out.
SIM_LWIP := $(BUILD)/test/lwip_alone.o
$(SIM_LWIP): $(patsubst %.c,$(BUILD)/test/%.o,$(LWIP_SOURCES))
	ld -r -o $@ $^
	objcopy --wildcard --keep-global-symbol='transport_*' $@
$(BUILD)/test/sim: $(SIM_OBJECTS) $(SIM_LWIP)
	$(CC) $(TEST_LINK) -o $@ $^
# Without lwIP, whose source is fetched: what `make test` plays.
$(BUILD)/test/sim-own: $(SIM_OBJECTS) $(BUILD)/test/net/own/transport.o
	$(CC) $(TEST_LINK) -o $@ $^
sim: $(BUILD)/test/sim ## games over a bad network in virtual time: SEED= STEPS= SECONDS= PEER=own|lwip RECORDING=FILE
	$< --peer $(or $(PEER),own) $(if $(SEED),--seed $(SEED)) $(if $(STEPS),--steps $(STEPS)) \
		$(if $(SECONDS),--seconds $(SECONDS)) $(if $(RECORDING),--recording $(RECORDING))
NEEDS_sim := $(BUILD)/test/sim-own
NEEDS_sim_slow := $(BUILD)/test/sim
.PHONY: sim
