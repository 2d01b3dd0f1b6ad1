# The transports as hosted programs: tests/transport/*.c, each linked with each stack there is.
# transport_objects TREE,STACK: the stack's objects in a build tree, with the hosted devices.
TRANSPORT_HOST := $(wildcard tests/lib/frame_pool.c tests/lib/netdev_*.c)
transport_objects = $(patsubst %.c,$(BUILD)/$1/%.o,$(wildcard base/*.c) $(NET_SOURCES_$2) $(TRANSPORT_HOST))
TRANSPORT_STACKS := lwip $(if $(wildcard net/own/transport.c),own)
TRANSPORT_PROGRAMS := $(foreach stack,$(TRANSPORT_STACKS),\
	$(patsubst tests/transport/%.c,$(BUILD)/test/transport/%-$(stack),$(wildcard tests/transport/*.c)))

define transport_program
$(filter %-$(1),$(TRANSPORT_PROGRAMS)): $(BUILD)/test/transport/%-$(1): $(BUILD)/test/tests/transport/%.o \
		$(call transport_objects,test,$(1))
	@mkdir -p $$(@D)
	$$(CC) $(TEST_LINK) -o $$@ $$^ -lcmocka
$(BUILD)/test/transport/contract_test-$(1): $(BUILD)/test/tests/lib/test.o
$(BUILD)/test/transport/stdin_driver-$(1): $(BUILD)/test/tests/lib/assert_abort.o
endef
$(foreach stack,$(TRANSPORT_STACKS),$(eval $(call transport_program,$(stack))))

UNIT_EXTRA_netdev_test := tests/lib/frame_pool.c tests/lib/netdev_memory.c tests/lib/netdev_faults.c \
	tests/lib/netdev_pcap.c

transport: $(TRANSPORT_PROGRAMS) ## the programs of tests/transport
NEEDS_transport := $(TRANSPORT_PROGRAMS)
.PHONY: transport
