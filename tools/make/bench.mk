# The matcher's check against the oracle, and the benchmarks: optimised host programs.
MATCHER_HOST := $(patsubst %.c,$(BUILD)/host/%.o,$(wildcard app/matcher*.c) kernel/base/format.c app/copilot.c)
MATCHER_CHECK := $(BUILD)/host/tests/matcher/matcher_check
MATCHER_CHECK_HOST := $(patsubst %,$(BUILD)/host/tests/matcher/%.o,matcher_check cells oracle)

$(MATCHER_CHECK): $(MATCHER_CHECK_HOST) $(MATCHER_HOST)
	$(CC) -o $@ $^ -lgmp

# The same with AVX-512 in C (tests/matcher/avx512_emulated.h), for machines that do not have it.
MATCHER_CHECK_EMULATED := $(BUILD)/host/tests/matcher/matcher_check_emulated
$(BUILD)/host/tests/matcher/matcher_avx512_emulated.o: app/matcher_avx512.c tests/matcher/avx512_emulated.h
	@mkdir -p $(@D)
	$(CC) $(HOST_CFLAGS) -mavx2 -mbmi2 -Wno-psabi -include tests/matcher/avx512_emulated.h -c -o $@ $<
$(MATCHER_CHECK_EMULATED): $(MATCHER_CHECK_HOST) $(BUILD)/host/tests/matcher/matcher_avx512_emulated.o \
		$(BUILD)/host/tests/matcher/simd_emulated.o $(filter-out %/matcher_avx512.o,$(MATCHER_HOST))
	$(CC) -Wl,--wrap=matcher_simd_usable -o $@ $^ -lgmp
-include $(BUILD)/host/tests/matcher/matcher_avx512_emulated.d

CHECK_NEEDS += $(MATCHER_CHECK) $(MATCHER_CHECK_EMULATED)

BENCH_MATCHER := $(BUILD)/host/tests/bench/bench_matcher
$(BENCH_MATCHER): $(patsubst %,$(BUILD)/host/tests/bench/bench_%.o,matcher stream) $(MATCHER_HOST)
	$(CC) -pthread -o $@ $^ -lgmp

# Prints the tables of docs/matcher.md and writes build/bench/matcher.json. QUICK=1, REPEAT=5.
bench-matcher: $(BENCH_MATCHER)
	$(PY) tests/bench/bench_matcher.py

# Where the hot path's cycles go: instructions by function (valgrind, AVX2: it knows no AVX-512), and what limits the
# look-ahead kernels on a Skylake server (llvm-mca).
profile-matcher: $(BENCH_MATCHER)
	tests/bench/profile_matcher.sh $(BUILD)

# Long runs: 10^7 digits of each round against the oracle, 3 * 10^6 with more than 256 digits an answer, 10^9 random
# digits for false matches. About an hour.
check-matcher-long: $(MATCHER_CHECK)
	$(MATCHER_CHECK) online 1 10000000
	$(MATCHER_CHECK) onsite 2 10000000
	$(MATCHER_CHECK) wide 5 3000000
	$(MATCHER_CHECK) false 3 1000000000
	$(MATCHER_CHECK) early 4 100000000

# The instructions of AVX-512 themselves, where the machine has none: on an emulated processor (apt-get install bochs
# bochs-term). Six minutes.
check-avx512: $(MATCHER_CHECK)
	tests/matcher/bochs.py '$(MATCHER_CHECK) small 1 1000 avx512' '$(MATCHER_CHECK) mixed 2 1000 avx512' \
		'$(MATCHER_CHECK) adversarial 3 1000 avx512' '$(MATCHER_CHECK) online 4 10000 avx512' \
		'$(MATCHER_CHECK) onsite 5 10000 avx512' '$(MATCHER_CHECK) wide 6 6000 avx512' \
		'$(MATCHER_CHECK) old 7 200000 avx512'

.PHONY: bench-matcher profile-matcher check-matcher-long check-avx512

# The stacks, ring to ring: the driver over the model device, each transport, the player on top.
BENCH_NET_COMMON := tests/bench/bench_net.c tests/bench/bench_peer.c tests/model/memory.c tests/model/virtio_model.c \
	drivers/virtio_net.c drivers/virtio_net_init.c drivers/virtqueue.c host/platform.c \
	$(wildcard kernel/base/*.c app/*.c)
define bench_net
$(BUILD)/host/tests/bench/bench_net-$(1): $(patsubst %.c,$(BUILD)/host/%.o,$(BENCH_NET_COMMON) $(NET_SOURCES_$(1)))
	$$(CC) -Wl,--wrap=matcher_begin,--wrap=matcher_next -o $$@ $$^ -lgmp
endef
$(foreach stack,own lwip,$(eval $(call bench_net,$(stack))))
BENCH_NET := $(foreach stack,own lwip,$(BUILD)/host/tests/bench/bench_net-$(stack))
CHECK_NEEDS += $(BENCH_NET)

# Prints the table of docs/net.md and writes build/bench/net.json. QUICK=1, REPEAT=5.
bench-net: $(BENCH_NET)
	$(PY) tests/bench/bench_net.py

# The same in instructions, for tests/bench/test_instructions.py: writes its baseline.
count-net: $(BENCH_NET)
	$(PY) tests/bench/test_instructions.py
.PHONY: bench-net count-net

# What work on another CPU costs the one that plays: on two hyperthreads of one core, if the machine tells of any, and on
# two CPUs that share none. Prints a table and writes build/bench/sibling.json. QUICK=1, REPEAT=15.
BENCH_LOAD := $(BUILD)/host/tests/bench/bench_load
$(BENCH_LOAD): $(sort $(patsubst %.c,$(BUILD)/host/%.o,tests/bench/bench_load.c tests/bench/bench_stream.c host/platform.c \
		$(wildcard kernel/base/*.c)) $(MATCHER_HOST))
	$(CC) -o $@ $^ -lgmp
BENCH_SIBLING := $(BENCH_LOAD) $(BENCH_MATCHER) $(BUILD)/host/tests/bench/bench_net-own
bench-sibling: $(BENCH_SIBLING)
	$(PY) tests/bench/bench_sibling.py
CHECK_NEEDS += $(BENCH_SIBLING)
.PHONY: bench-sibling

# Floods at full ring speed while a game is on, over our own stack: tests/flood/.
FLOOD := $(BUILD)/host/tests/flood/flood
$(FLOOD): $(patsubst %.c,$(BUILD)/host/%.o,tests/flood/flood.c $(filter-out tests/bench/bench_net.c,$(BENCH_NET_COMMON)) \
		$(NET_SOURCES_own))
	$(CC) -o $@ $^
CHECK_NEEDS += $(FLOOD)
