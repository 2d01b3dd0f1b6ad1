# make sim SEED= STEPS= SECONDS= PEER=own|lwip : whole connections over a bad network, in virtual time.
SIM_OBJECTS := $(patsubst %.c,$(BUILD)/test/%.o,$(wildcard tests/sim/*.c kernel/base/*.c) host/frame_pool.c \
	host/netdev_memory.c $(filter-out net/transport_own.c,$(NET_SOURCES_own)))
# Both stacks in one program: lwIP's names (tcp_connect, ...) stay inside, only net/transport.h's come out.
SIM_LWIP := $(BUILD)/test/lwip_alone.o
$(SIM_LWIP): $(patsubst %.c,$(BUILD)/test/%.o,$(LWIP_SOURCES))
	ld -r -o $@ $^
	objcopy --wildcard --keep-global-symbol='transport_*' $@
$(BUILD)/test/sim: $(SIM_OBJECTS) $(SIM_LWIP)
	$(CC) -fsanitize=address,undefined -o $@ $^
sim: $(BUILD)/test/sim
	$< --peer $(or $(PEER),own) $(if $(SEED),--seed $(SEED)) $(if $(STEPS),--steps $(STEPS)) \
		$(if $(SECONDS),--seconds $(SECONDS))
CHECK_NEEDS += $(BUILD)/test/sim
.PHONY: sim
