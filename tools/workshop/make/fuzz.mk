# Fuzz targets, libFuzzer with ASan and UBSan: tests/fuzz/NAME_fuzz.c becomes build/fuzz/NAME, linked with everything
# pure; tests/fuzz/NAME_stack_fuzz.c becomes build/fuzz/NAME-STACK, linked with each stack and the hosted devices.
CLANG ?= clang
FUZZ_CFLAGS := $(filter-out -Werror,$(COMMON)) -O1 -DNET_SKIP_CHECKSUMS=1 -fsanitize=fuzzer-no-link,address,undefined \
	-fno-sanitize-recover=all -fno-omit-frame-pointer

$(BUILD)/fuzz/%.o: %.c
	@mkdir -p $(@D)
	$(CLANG) $(FUZZ_CFLAGS) $(filter-out $(STRICT),$(call cflags_of,$<)) -c -o $@ $<

# Sums and loops without choices: with their comparisons traced, the matcher takes four times as long.
$(patsubst %.c,$(BUILD)/fuzz/%.o,base/big.c $(wildcard app/matcher/*.c)): \
	FUZZ_CFLAGS += -O2 -fno-sanitize-coverage=trace-cmp

FUZZ_LIB := $(BUILD)/fuzz/libperegrine.a
FUZZ_LIB_SOURCES := $(wildcard base/*.c) kernel/settings.c \
	$(addprefix drivers/virtio/,net.c net_init.c net_twin.c virtqueue.c) tests/lib/virtio_model.c \
	$(GVE_DRIVER) $(GVE_MODEL) tests/gve/bus.c \
	tests/lib/device_memory.c tests/lib/player_setup.c \
	tests/lib/frame_pool.c tests/lib/netdev_memory.c tests/lib/igmp_packet.c tests/lib/assert_abort.c \
	$(APP_TESTED) $(TIME_PARTS) $(NET_SOURCES_own)
$(FUZZ_LIB): $(patsubst %.c,$(BUILD)/fuzz/%.o,$(FUZZ_LIB_SOURCES))
	@rm -f $@
	ar qcs $@ $^

$(foreach name,digest trade,$(eval $(BUILD)/fuzz/$(name): \
	$(patsubst %.c,$(BUILD)/fuzz/%.o,$(filter-out app/$(name)/program.c,$(wildcard app/$(name)/*.c)))))

FUZZ_PURE := $(patsubst tests/fuzz/%_fuzz.c,$(BUILD)/fuzz/%,\
	$(filter-out %_stack_fuzz.c,$(wildcard tests/fuzz/*_fuzz.c)))
$(FUZZ_PURE): $(BUILD)/fuzz/%: $(BUILD)/fuzz/tests/fuzz/%_fuzz.o $(FUZZ_LIB)
	$(CLANG) -fsanitize=fuzzer,address,undefined -o $@ $(filter %.o,$^) $(FUZZ_LIB) -lm

define fuzz_stack
$(BUILD)/fuzz/%-$(1): $(BUILD)/fuzz/tests/fuzz/%_stack_fuzz.o $(BUILD)/fuzz/tests/lib/assert_abort.o \
		$(call transport_objects,fuzz,$(1))
	$$(CLANG) -fsanitize=fuzzer,address,undefined -o $$@ $$^
endef
$(foreach stack,$(TRANSPORT_STACKS),$(eval $(call fuzz_stack,$(stack))))
FUZZ_STACK := $(foreach stack,$(TRANSPORT_STACKS),\
	$(patsubst tests/fuzz/%_stack_fuzz.c,$(BUILD)/fuzz/%-$(stack),$(wildcard tests/fuzz/*_stack_fuzz.c)))

fuzz: $(FUZZ_PURE) $(FUZZ_STACK) ## all fuzz targets in turn: HOURS=8 of CPU, SEED=; a table at the end
	$(PY) -m tests.fuzz.fuzz $(if $(HOURS),--hours $(HOURS)) $(if $(SEED),--seed $(SEED))
NEEDS_fuzz := $(FUZZ_PURE) $(FUZZ_STACK)
.PHONY: fuzz
