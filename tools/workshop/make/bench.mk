# The matcher's check against the oracle, and the benchmarks: optimised host programs.
MATCHER_HOST := $(patsubst %.c,$(BUILD)/host/%.o,$(wildcard app/matcher/*.c) base/format.c base/siphash.c \
	base/big.c base/vectors.c tests/lib/assert_abort.c)
MATCHER_CHECK := $(BUILD)/host/tests/matcher/matcher_check
MATCHER_CHECK_HOST := $(patsubst %,$(BUILD)/host/tests/matcher/%.o,matcher_check oracle) \
	$(BUILD)/host/tests/lib/recording.o

$(MATCHER_CHECK): $(MATCHER_CHECK_HOST) $(MATCHER_HOST)
	$(CC) -o $@ $^ -lgmp

# matcher_check with AVX-512 in C (tests/matcher/avx512_emulated.h), for machines that do not have it.
MATCHER_CHECK_EMULATED := $(BUILD)/host/tests/matcher/matcher_check_emulated
$(BUILD)/host/tests/matcher/matcher_avx512_emulated.o: app/matcher/avx512.c tests/matcher/avx512_emulated.h
	@mkdir -p $(@D)
	$(CC) $(HOST_CFLAGS) -mavx2 -mbmi2 -Wno-psabi -include tests/matcher/avx512_emulated.h -c -o $@ $<
$(MATCHER_CHECK_EMULATED): $(MATCHER_CHECK_HOST) $(BUILD)/host/tests/matcher/matcher_avx512_emulated.o \
		$(BUILD)/host/tests/matcher/simd_emulated.o $(filter-out %/app/matcher/avx512.o,$(MATCHER_HOST))
	$(CC) -Wl,--wrap=vectors_avx512 -o $@ $^ -lgmp
-include $(BUILD)/host/tests/matcher/matcher_avx512_emulated.d

# The longest time between two polls of the ring within a long burst.
MATCHER_POLL := $(BUILD)/host/tests/matcher/matcher_poll
$(MATCHER_POLL): $(BUILD)/host/tests/matcher/matcher_poll.o $(BUILD)/host/tests/bench/bench_stream.o $(MATCHER_HOST)
	$(CC) -o $@ $^ -lgmp

# The work on the worst streams.
MATCHER_WORK := $(BUILD)/host/tests/matcher/matcher_work
$(MATCHER_WORK): $(BUILD)/host/tests/matcher/matcher_work.o $(BUILD)/host/tests/bench/bench_stream.o $(MATCHER_HOST)
	$(CC) -o $@ $^ -lgmp

NEEDS_matcher := $(MATCHER_CHECK) $(MATCHER_CHECK_EMULATED) $(MATCHER_POLL) $(MATCHER_WORK)

BENCH_MATCHER := $(BUILD)/host/tests/bench/bench_matcher
$(BENCH_MATCHER): $(patsubst %,$(BUILD)/host/tests/bench/bench_%.o,matcher stream) \
		$(BUILD)/host/tests/lib/recording.o $(MATCHER_HOST)
	$(CC) -pthread -o $@ $^ -lgmp

# Prints the tables and writes build/bench/matcher.json. QUICK=1, REPEAT=5. RECORDING=FILE: the digits of a contest.
bench-matcher: $(BENCH_MATCHER) ## the matcher's benchmarks: build/bench/matcher.json; QUICK=1, REPEAT=5, RECORDING=FILE
	$(PY) tests/bench/bench_matcher.py

# The cycles of the hot path: instructions by function (valgrind, AVX2: it knows no AVX-512), and the bottlenecks of the
# look-ahead routines on a Skylake server (llvm-mca).
profile-matcher: $(BENCH_MATCHER) ## instructions of the matcher by function (valgrind, llvm-mca)
	tests/bench/profile_matcher.sh $(BUILD)

# Long runs: 10^7 digits of each round against the oracle, 3 * 10^6 with more than 256 digits an answer, 10^9 random
# digits for false matches. About an hour.
check-matcher-long: $(MATCHER_CHECK) ## an hour of digits against the oracle
	$(MATCHER_CHECK) online 1 10000000
	$(MATCHER_CHECK) onsite 2 10000000
	$(MATCHER_CHECK) wide 5 3000000
	$(MATCHER_CHECK) false 3 1000000000
	$(MATCHER_CHECK) early 4 100000000

# The instructions of AVX-512 themselves, where the machine has none: on an emulated processor (apt-get install bochs
# bochs-term bochsbios vgabios). Six minutes.
check-avx512: $(MATCHER_CHECK) ## the AVX-512 variant on an emulated processor (bochs), six minutes
	tests/matcher/bochs.py '$(MATCHER_CHECK) small 1 1000 avx512' '$(MATCHER_CHECK) mixed 2 1000 avx512' \
		'$(MATCHER_CHECK) adversarial 3 1000 avx512' '$(MATCHER_CHECK) online 4 10000 avx512' \
		'$(MATCHER_CHECK) onsite 5 10000 avx512' '$(MATCHER_CHECK) wide 6 6000 avx512'

.PHONY: bench-matcher profile-matcher check-matcher-long check-avx512

# The stacks, ring to ring: the driver over the model device, each transport, the player on top.
BENCH_NET_COMMON := tests/bench/bench_net.c tests/bench/bench_peer.c tests/lib/device_memory.c \
	tests/lib/virtio_model.c $(addprefix drivers/virtio/,net.c net_init.c net_twin.c virtqueue.c) host/platform.c \
	$(wildcard base/*.c) kernel/settings.c tests/lib/player_setup.c $(APP_TESTED)
define bench_net
$(BUILD)/host/tests/bench/bench_net-$(1): $(patsubst %.c,$(BUILD)/host/%.o,$(BENCH_NET_COMMON) \
		tests/bench/bench_trade.c $(filter-out app/trade/program.c,$(wildcard app/trade/*.c)) $(NET_SOURCES_$(1)))
	$$(CC) -Wl,--wrap=matcher_begin,--wrap=matcher_next -o $$@ $$^ -lgmp
endef
$(foreach stack,own lwip,$(eval $(call bench_net,$(stack))))
BENCH_NET := $(foreach stack,own lwip,$(BUILD)/host/tests/bench/bench_net-$(stack))
# Google's virtual NIC: the driver without PCI; the model, for tests and for a device of QEMU.
GVE_DRIVER := $(addprefix drivers/gve/,gve.c gqi.c dqo.c state.c admin.c twin.c)
GVE_MODEL := $(addprefix tests/gve/,model.c gqi.c dqo.c offload.c)

# The drivers of network cards over their models.
BENCH_CARD := $(BUILD)/host/tests/bench/bench_card
$(BENCH_CARD): $(patsubst %.c,$(BUILD)/host/%.o,tests/bench/bench_card.c tests/lib/device_memory.c \
		tests/lib/virtio_model.c $(addprefix drivers/virtio/,net.c net_init.c net_twin.c virtqueue.c) \
		$(GVE_DRIVER) $(GVE_MODEL) tests/gve/bus.c net/ip/checksum.c host/platform.c \
		kernel/settings.c $(wildcard base/*.c))
	$(CC) -o $@ $^
NEEDS_bench := $(BENCH_NET) $(BENCH_CARD)

# Prints a table and writes build/bench/net.json. QUICK=1, REPEAT=5.
bench-net: $(BENCH_NET) $(BENCH_CARD) ## the stacks ring to ring: build/bench/net.json; QUICK=1, REPEAT=5
	$(PY) tests/bench/bench_net.py

# Instruction counts, for tests/bench/test_instructions.py: writes its baseline.
count-net: $(BENCH_NET) $(BENCH_CARD) ## instructions of both stacks (callgrind): writes the baseline of tests/bench
	$(PY) tests/bench/test_instructions.py
.PHONY: bench-net count-net

# The recorder of cache lines, tests/bench/touched.h. The product's objects call it; those of tests/ do not.
$(BUILD)/touched/%.o: %.c tests/bench/touched.h
	@mkdir -p $(@D)
	$(CC) $(HOST_CFLAGS) -g -fsanitize=thread $(if $(findstring clang,$(CC)),,-Wno-tsan) \
		-DTOUCHED -include tests/bench/touched.h -D__builtin_prefetch=touched_prefetch $(call cflags_of,$<) -c -o $@ $<
$(BUILD)/touched/tests/%.o: tests/%.c
	@mkdir -p $(@D)
	$(CC) $(HOST_CFLAGS) -DTOUCHED $(call cflags_of,$<) -c -o $@ $<
touched_objects = $(patsubst %.c,$(BUILD)/touched/%.o,$1 tests/bench/touched.c)
TOUCHED_LINK := -no-pie -Wl,--wrap=memcpy,--wrap=memset,--wrap=memcmp
TOUCHED := $(BUILD)/touched/bench_net $(addprefix $(BUILD)/touched/,echo time digest)
$(BUILD)/touched/bench_net: $(call touched_objects,$(BENCH_NET_COMMON) tests/bench/bench_trade.c \
		$(filter-out app/trade/program.c,$(wildcard app/trade/*.c)) $(NET_SOURCES_own))
	$(CC) $(TOUCHED_LINK) -Wl,--wrap=matcher_begin,--wrap=matcher_next -o $@ $^ -lgmp
define touched_program
$(BUILD)/touched/$1: $$(call touched_objects,tests/bench/touched_program.c tests/lib/frame_pool.c \
		tests/lib/netdev_memory.c $$(wildcard app/$1/*.c base/*.c net/http/*.c) $$(APP_LIBRARY) $$(CAPTURE_SOURCES) \
		host/platform.c $$(SETTINGS_SOURCES) $$(NET_SOURCES_own))
	$$(CC) $$(TOUCHED_LINK) -pthread -o $$@ $$^
endef
$(foreach name,echo time digest,$(eval $(call touched_program,$(name))))
NEEDS_bench += $(TOUCHED)
bench-touched: $(TOUCHED) ## the cache lines of an answer that no rehearsal touches, by function
	$(PY) tests/bench/touched.py
.PHONY: bench-touched

# The variants of app/digest/ beside OpenSSL, coreutils and, if it is installed, Go.
BENCH_DIGEST := $(BUILD)/host/tests/bench/bench_digest
$(BENCH_DIGEST): $(patsubst %.c,$(BUILD)/host/%.o,tests/bench/bench_digest.c host/platform.c app/service/work.c \
		$(filter-out $(addprefix app/digest/,program.c server.c connection.c patience.c reply.c), \
			$(wildcard app/digest/*.c base/*.c)))
	$(CC) -pthread -o $@ $^ -lcrypto
bench-digest: $(BENCH_DIGEST) $(call linux_program,digest) ## hashes beside OpenSSL, Go, coreutils; CPUS=1,2 QUICK=1
	$(PY) tests/bench/bench_digest.py
	$(PY) tests/bench/bench_digest_cpus.py
# The digest over the wire, in QEMU: as a kernel, in a Linux guest, and Go's net/http there.
bench-digest-wire: $(call linux_program,digest) $(BUILD)/digest/peregrine.elf ## /sha256 over the wire, kernel and Linux
	$(PY) tests/bench/bench_digest_wire.py
# Three digests of unequal speed behind HAProxy, in a network namespace: docs/balance.md.
bench-balance: $(call linux_program,digest) ## ways to balance unequal machines; QUICK=1, REPEAT=3
	$(if $(filter 0,$(shell id -u)),unshare -n,unshare -Urn) $(PY) tests/balance/unequal.py
.PHONY: bench-digest bench-digest-wire bench-balance

# The leaf modules beside public equals. Functions of kernel/time/clock.c that only a kernel can run are left out by the
# linker.
BENCH_BASE := $(BUILD)/host/tests/bench/bench_base
BENCH_BASE_SOURCES := tests/bench/bench_base.c tests/lib/device_memory.c tests/lib/virtio_model.c \
	$(addprefix drivers/virtio/,net.c net_init.c net_twin.c virtqueue.c) host/platform.c kernel/settings.c \
	$(wildcard base/*.c)
$(BUILD)/host/tests/bench/bench_base.o: HOST_CFLAGS += -ffunction-sections
$(BUILD)/host/tests/bench/bench_base_boost.o: tests/bench/bench_base_boost.cpp tests/bench/bench_base_boost.h
	@mkdir -p $(@D)
	$(CXX) -O2 -I. -c -o $@ $<
$(BENCH_BASE): $(patsubst %.c,$(BUILD)/host/%.o,$(BENCH_BASE_SOURCES)) $(BUILD)/host/tests/bench/bench_base_boost.o
	$(CXX) -pthread -Wl,--gc-sections -o $@ $^ -lurcu-qsbr

bench-base: $(BENCH_BASE) ## the leaf modules between two cores: build/bench/base.json; QUICK=1, REPEAT=5
	$(PY) tests/bench/bench_base.py
NEEDS_bench += $(BENCH_BASE)
.PHONY: bench-base

# Floods at full ring speed while a game is on, over our own stack: tests/flood/.
FLOOD := $(BUILD)/host/tests/flood/flood
$(FLOOD): $(patsubst %.c,$(BUILD)/host/%.o,tests/flood/flood.c \
		$(filter-out tests/bench/bench_net.c,$(BENCH_NET_COMMON)) $(NET_SOURCES_own))
	$(CC) -o $@ $^
NEEDS_flood := $(FLOOD)

## bench: measures everything that docs/performance.md shows; half an hour on a quiet machine
bench: bench-net bench-matcher bench-digest bench-base bench-time ## all benchmarks
report: ## takes build/bench/*.json into docs/performance.json, and writes the pages' figures from it
	$(PY) tools/workshop/report.py
.PHONY: bench report
