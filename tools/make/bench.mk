# The matcher's check against the oracle, and the benchmarks: optimised host programs.
MATCHER_HOST := $(patsubst %.c,$(BUILD)/host/%.o,$(wildcard app/matcher*.c) kernel/base/format.c)
MATCHER_CHECK := $(BUILD)/host/tests/matcher/matcher_check

$(MATCHER_CHECK): $(BUILD)/host/tests/matcher/matcher_check.o $(BUILD)/host/tests/matcher/oracle.o $(MATCHER_HOST)
	$(CC) -o $@ $^ -lgmp

CHECK_NEEDS += $(MATCHER_CHECK)

BENCH_MATCHER := $(BUILD)/host/tests/bench/bench_matcher
$(BENCH_MATCHER): $(BUILD)/host/tests/bench/bench_matcher.o $(MATCHER_HOST)
	$(CC) -o $@ $^ -lgmp
