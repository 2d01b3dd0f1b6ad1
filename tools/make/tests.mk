# Tests. Every C test is one program under ASan and UBSan; pytest runs them all and counts.
TEST_LIB_SOURCES := $(wildcard kernel/base/*.c app/*.c drivers/pci.c drivers/virt*.c tests/model/*.c) $(NET_SOURCES_own)
TEST_LIB := $(BUILD)/test/libperegrine.a
UNIT_TESTS := $(patsubst %.c,$(BUILD)/test/%,$(wildcard tests/unit/*_test.c))

$(BUILD)/test/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(TEST_CFLAGS) $(call cflags_of,$<) -c -o $@ $<

$(TEST_LIB): $(patsubst %.c,$(BUILD)/test/%.o,$(TEST_LIB_SOURCES))
	@rm -f $@
	ar rcs $@ $^

# A unit test links the archive, so what it defines itself (a fake transport, say) wins over the archive's member.
# More sources for one test: UNIT_EXTRA_name_test := file.c ...
UNIT_EXTRA_memory_map_test := kernel/memory_map.c
UNIT_EXTRA_blackbox_test := kernel/blackbox.c
UNIT_EXTRA_boot_info_test := kernel/boot_info.c
UNIT_EXTRA_utc_test := kernel/rtc.c
UNIT_EXTRA_acpi_test := kernel/acpi.c
.SECONDEXPANSION:
$(UNIT_TESTS): $(BUILD)/test/tests/unit/%: $(BUILD)/test/tests/unit/%.o $(BUILD)/test/tests/unit/support.o \
		$$(addprefix $(BUILD)/test/,$$(UNIT_EXTRA_$$*:.c=.o)) $(TEST_LIB)
	$(CC) -fsanitize=address,undefined -o $@ $^ -lcmocka -lm $(UNIT_LIBS_$*)

TSAN_TESTS := $(BUILD)/tsan/copilot_test $(BUILD)/tsan/page_test
unit: $(UNIT_TESTS) $(TSAN_TESTS)
	$(PY) -m pytest -q tests/unit

# What two CPUs do at once, under ThreadSanitizer. It knows no fences: the words of a seqlock are atomic themselves.
TSAN_COPILOT := $(patsubst %.c,$(BUILD)/tsan/%.o,tests/unit/copilot_test.c tests/unit/support.c app/copilot.c \
	$(wildcard app/matcher*.c) kernel/base/format.c)
$(BUILD)/tsan/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(COMMON) -O1 -fsanitize=thread -Wno-tsan $(call cflags_of,$<) -c -o $@ $<
TSAN_PAGE := $(patsubst %.c,$(BUILD)/tsan/%.o,tests/unit/page_test.c tests/unit/fake_transport.c tests/unit/support.c \
	$(wildcard app/page*.c) app/metrics.c app/stats.c app/histogram.c app/span.c kernel/base/format.c)
$(BUILD)/tsan/copilot_test: $(TSAN_COPILOT)
$(BUILD)/tsan/page_test: $(TSAN_PAGE)
$(TSAN_TESTS):
	$(CC) -fsanitize=thread -o $@ $^ -lcmocka
CHECK_NEEDS += $(TSAN_TESTS)

# Everything pytest needs built beforehand. Fragments add to CHECK_NEEDS.
# The kernel's objects of both stacks, for tests/structure.
NET_OBJECTS := $(patsubst %.c,$(BUILD)/kernel/%.o,$(sort $(NET_SOURCES_own) $(NET_SOURCES_lwip)))
CHECK_NEEDS += $(UNIT_TESTS) $(BUILD)/peregrine.elf $(NET_OBJECTS)
-include $(NET_OBJECTS:.o=.d)

# The images with the other stack: the games of tests/e2e are played over both.
OTHER_IMAGE := $(BUILD)/other/peregrine.elf
$(OTHER_IMAGE): FORCE
	@$(MAKE) -s --no-print-directory BUILD=$(BUILD)/other STACK=$(filter-out $(STACK),own lwip) LWIP=$(LWIP) $@ $(@:.elf=.bzImage)
FORCE:
CHECK_NEEDS += $(OTHER_IMAGE)

check-ready: roundtrip-disk $(CHECK_NEEDS)
	$(PY) -m pytest -q -rfEs -n 2 --dist load tests

-include $(shell find $(BUILD)/test $(BUILD)/host $(BUILD)/fuzz $(BUILD)/pic $(BUILD)/tsan $(BUILD)/kernel/tests -name '*.d' 2>/dev/null)
.PHONY: unit check-ready FORCE
