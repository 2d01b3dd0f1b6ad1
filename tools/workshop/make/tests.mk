# Tests. Every C test is one program under ASan and UBSan; pytest runs them all and counts.
TEST_LIB_SOURCES := kernel/settings.c $(APP_TESTED) $(TIME_PARTS) $(wildcard base/*.c tests/lib/player_setup.c \
	drivers/*/*.c tests/lib/virtio_model.c $(GVE_MODEL) tests/gve/bus.c tests/lib/device_memory.c \
	tests/lib/fake_cpu.c tests/lib/fake_ports.c) \
	host/library/netdev_ip.c $(NET_SOURCES_own)
TEST_LIB := $(BUILD)/test/libperegrine.a
UNIT_TESTS := $(patsubst %.c,$(BUILD)/test/%,$(sort $(wildcard tests/unit/*_test.c) $(if $(OUTSIDE), \
	tests/unit/$(PROGRAM)_test.c)))

$(BUILD)/test/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(TEST_CFLAGS) $(call cflags_of,$<) -c -o $@ $<

# GCC's own header adds vectors as signed integers, where the instruction wraps.
$(BUILD)/test/app/matcher/avx512.o: TEST_CFLAGS += -fno-sanitize=signed-integer-overflow

# cmocka 2 deprecates words for which cmocka 1.1 has no other.
$(BUILD)/test/tests/%.o: TEST_CFLAGS += -Wno-deprecated-declarations

# GCC 14 lays an ASan frame with 64-byte vectors out for the real stack, whose base is 32 bytes beside a multiple of
# 64. The frame on the heap, which finds uses after a return, begins at a multiple of 64, so its vectors are misaligned
# there and aligned stores of 64 bytes trap. The frames of these files stay on the real stack.
$(BUILD)/test/%avx512.o $(BUILD)/test/%vaes.o: TEST_CFLAGS += \
	$(if $(findstring clang,$(CC)),,--param asan-use-after-return=0)

# Drivers and the clock touch the ports of tests/lib/fake_ports.c, and the registers of tests/lib/fake_cpu.c.
$(BUILD)/test/drivers/%.o $(BUILD)/test/kernel/time/%.o $(BUILD)/test/kernel/cpu/%.o \
	$(patsubst %,$(BUILD)/test/tests/unit/%_test.o,clock cpu paging power_button screen i6300esb nmi_timer workers): \
	TEST_CFLAGS += -iquote tests/lib/fake_ports

$(TEST_LIB): $(patsubst %.c,$(BUILD)/test/%.o,$(TEST_LIB_SOURCES))
	@rm -f $@
	ar qcs $@ $^

# A unit test links the archive, so what it defines itself (a fake transport, say) wins over the archive's member.
# More sources for one test: UNIT_EXTRA_name_test := file.c ...
# The test of a program, tests/unit/NAME_test.c, links the program and a transport that the test plays.
$(foreach name,$(PROGRAMS),$(if $(UNIT_EXTRA_$(name)_test),,\
	$(eval UNIT_EXTRA_$(name)_test := $(call program_files,$(name)) $(FAKE_TRANSPORT))))
UNIT_EXTRA_trade_days_test = $(UNIT_EXTRA_trade_test)
UNIT_EXTRA_trade_rules_test = $(UNIT_EXTRA_trade_test)
UNIT_EXTRA_rehearsal_test := tests/lib/netdev_memory.c tests/lib/frame_pool.c
TRADE_JOINS := $(addprefix app/trade/,audit.c feed.c orders.c program.c rehearse.c shown.c snapshot.c trade.c)
$(foreach part,book ouch risk strategy,$(eval UNIT_EXTRA_trade_$(part)_test := \
	$(filter-out $(TRADE_JOINS),$(wildcard app/trade/*.c))))
UNIT_EXTRA_memory_map_test := kernel/memory/map.c
UNIT_EXTRA_blackbox_test := kernel/rescue/blackbox.c
UNIT_EXTRA_console_test := kernel/rescue/console.c
UNIT_EXTRA_cpu_test := $(addprefix kernel/cpu/,cpu.c hypervisor.c traps.c)
UNIT_EXTRA_workers_test := kernel/cpu/apic.c kernel/cpu/stacks.c
UNIT_EXTRA_boot_info_test := kernel/firmware/boot_info.c
UNIT_EXTRA_utc_test := kernel/time/rtc.c
UNIT_EXTRA_clock_test := kernel/cpu/hypervisor.c $(addprefix kernel/time/,clock.c pm_timer.c tsc_frequency.c)
UNIT_EXTRA_symbols_test := kernel/rescue/symbols.c
UNIT_EXTRA_acpi_test := kernel/firmware/acpi.c kernel/firmware/efi.c
.SECONDEXPANSION:
$(UNIT_TESTS): $(BUILD)/test/tests/unit/%: $(BUILD)/test/tests/unit/%.o $(BUILD)/test/tests/lib/test.o \
		$$(addprefix $(BUILD)/test/,$$(UNIT_EXTRA_$$*:.c=.o)) $(TEST_LIB)
	$(CC) $(TEST_LINK) -o $@ $^ -lcmocka -lm $(UNIT_LIBS_$*)

TSAN_TESTS := $(addprefix $(BUILD)/tsan/,status_page_test broadcast_ring_test spsc_test work_test digest_work_test)
unit: $(UNIT_TESTS) $(TSAN_TESTS) ## the C unit tests
	$(PY) -m pytest -q tests/unit

program-test: $(BUILD)/test/tests/unit/$(PROGRAM)_test ## the unit test of PROGRAM= alone
	$<
.PHONY: program-test

# The concurrent work of two CPUs, under ThreadSanitizer. It knows no fences: a seqlock's words are atomic themselves.
$(BUILD)/tsan/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(COMMON) -O1 -fsanitize=thread $(if $(findstring clang,$(CC)),,-Wno-tsan) $(call cflags_of,$<) -c -o $@ $<
TSAN_PAGE := $(patsubst %.c,$(BUILD)/tsan/%.o,tests/unit/status_page_test.c $(FAKE_TRANSPORT) \
	tests/lib/test.c $(wildcard app/service/status_page*.c) net/http/request.c app/service/metrics.c \
	app/service/stats.c net/capture/capture.c net/capture/pcapng.c \
	$(patsubst %,base/%.c,histogram slowest trace text format log))
$(BUILD)/tsan/status_page_test: $(TSAN_PAGE)
$(BUILD)/tsan/broadcast_ring_test: $(addprefix $(BUILD)/tsan/tests/,unit/broadcast_ring_test.o lib/test.o)
$(BUILD)/tsan/spsc_test: $(addprefix $(BUILD)/tsan/tests/,unit/spsc_test.o lib/test.o)
$(BUILD)/tsan/work_test: $(patsubst %.c,$(BUILD)/tsan/%.o,tests/unit/work_test.c tests/lib/test.c \
	app/service/work.c base/format.c)
$(BUILD)/tsan/digest_work_test: $(patsubst %.c,$(BUILD)/tsan/%.o,tests/unit/digest_work_test.c tests/lib/test.c \
	$(FAKE_TRANSPORT) $(filter-out app/digest/program.c,$(wildcard app/digest/*.c net/http/*.c)) \
	app/service/stats.c app/service/slow.c \
	$(patsubst %,base/%.c,histogram slowest trace text format log vectors sha256))
$(TSAN_TESTS):
	$(CC) -fsanitize=thread -o $@ $^ -lcmocka

# Each folder of tests/ with tests, and what its tests want built: NEEDS_folder for all, NEEDS_folder_slow for those
# that are marked slow, which `make test` leaves out. Fragments set them.
QUICK_FOLDERS := structure unit wire web contest exchange tools sim matcher prove
FOLDERS := $(sort $(patsubst tests/%/,%,$(dir $(wildcard tests/*/test_*.py))))

# T=: of the unit programs those whose names hold T; if there are none, the test may be one of another kind.
UNIT_CHOSEN := $(foreach test,$(UNIT_TESTS) $(TSAN_TESTS),$(if $(findstring $(T),$(notdir $(test))),$(test)))
NEEDS_unit := $(or $(strip $(UNIT_CHOSEN)),$(UNIT_TESTS) $(TSAN_TESTS))
# The image, and the objects of the other programs.
NEEDS_structure := $(BUILD)/peregrine.elf $(patsubst %.c,$(OBJECTS)/%.o,$(wildcard app/*/*.c))
BOOK_ROWS := $(BUILD)/host/tests/exchange/book_rows
$(BOOK_ROWS): $(patsubst %,$(BUILD)/host/%.o,tests/exchange/book_rows $(addprefix app/trade/,book book_tables)) \
		$(HOST_LIBRARY)
	$(CC) -o $@ $^
NEEDS_exchange_slow := $(call linux_program,trade) $(REPLAY) $(BOOK_ROWS)
NEEDS_tools := $(BUILD)/peregrine.elf $(LOAD)
NEEDS_tools_slow := $(BUILD)/peregrine.bzImage

# The kernel's objects of both stacks, for tests/structure.
NET_OBJECTS := $(patsubst %.c,$(OBJECTS)/%.o,$(sort $(NET_SOURCES_own) $(NET_SOURCES_lwip)))
NEEDS_structure_slow := $(NET_OBJECTS)
-include $(NET_OBJECTS:.o=.d)

# The image with the other stack, for tests/e2e: some games are played over both. This image's objects are there first,
# so that no two makes compile the same file.
OTHER_IMAGE := $(BUILD)/other/peregrine.elf
OTHER_MAKE = $(MAKE) --no-print-directory OBJECTS=$(OBJECTS) LWIP=$(LWIP)
$(OTHER_IMAGE): FORCE $(NET_OBJECTS) $(IMAGE)/peregrine.elf
	+@$(OTHER_MAKE) BUILD=$(BUILD)/other PROGRAM=player STACK=$(filter-out $(STACK),own lwip) $@ $(@:.elf=.bzImage)

# The images of the programs other than PROGRAM. Each is made after PROGRAM's, for the same reason.
define program_image
$(call image_folder,$1)/peregrine.elf: FORCE $(NET_OBJECTS) $(IMAGE)/peregrine.elf
	+@$$(OTHER_MAKE) PROGRAM=$1 STACK=own $$@ $$(@:.elf=.bzImage)
$(call image_folder,$1)/peregrine.bzImage: $(call image_folder,$1)/peregrine.elf ;
endef
$(foreach name,$(filter-out $(PROGRAM),$(PROGRAMS)),$(eval $(call program_image,$(name))))
PROGRAM_IMAGES := $(foreach name,$(PROGRAMS),$(call image_folder,$(name))/peregrine.elf)

# Three digest machines behind HAProxy: docs/balance.md.
OWN_NETWORK = $(if $(filter 0,$(shell id -u)),unshare -n,unshare -Urn)
NEEDS_balance := $(call linux_program,digest)
NEEDS_balance_slow := $(BUILD)/digest/peregrine.elf $(BUILD)/digest/peregrine.bzImage $(call check_settings,digest)
check-balance: $(NEEDS_balance_slow) ## three kernels behind HAProxy: home, killed, frozen; then each renewed in turn
	$(OWN_NETWORK) $(PY) tests/balance/balance.py qemu
	$(OWN_NETWORK) $(PY) tests/balance/roll.py
.PHONY: check-balance
FORCE:
NEEDS_e2e := $(BUILD)/peregrine.elf $(BUILD)/peregrine.bzImage $(OTHER_IMAGE)
NEEDS_guest += $(OTHER_IMAGE) $(PROGRAM_IMAGES) $(LINUX_PROGRAMS) $(REPLAY)
NEEDS_roundtrip := roundtrip-disk $(CHECK_SETTINGS) $(BUILD)/peregrine.elf $(BUILD)/peregrine.bzImage

# needs IN="folder ...": builds what the tests of these folders want. SLOW=1: those that are marked slow, too.
needs: $(foreach folder,$(IN),$(NEEDS_$(folder)) $(if $(SLOW),$(NEEDS_$(folder)_slow)))

WORKERS = $$(nproc)

# run_tests FOLDERS,OPTIONS: builds what they need, and plays them. With T= only what matches, by pytest's -k.
define run_tests
@in="$(1)"; \
if [ -n "$(T)" ]; then \
	in=$$($(PY) -m pytest -q --collect-only $(2) -k "$(T)" $(1:%=tests/%) 2>/dev/null \
		| sed -n 's,^tests/\([^/]*\)/.*::.*,\1,p' | sort -u); \
	[ -n "$$in" ] || { echo "T=$(T): no such test in$(1:%= tests/%)"; exit 1; }; \
fi; \
$(ALONE_SHOWN) $(MAKE) --no-print-directory -j$(WORKERS) needs IN="$$(echo $$in)" \
	|| exit 1; \
$(PY) -m pytest -rfEs $(2) $(if $(T),-v -k "$(T)",-q -n $(WORKERS) --dist loadgroup) $$(printf ' tests/%s' $$in)
endef

test: ## the quick tests: no root, QEMU or network; again: only tests whose inputs changed. T=NAME, ALL=1
	@tools/setup.sh test
	$(call run_tests,$(QUICK_FOLDERS),-m "not slow" $(if $(T)$(ALL),,--changed))

# One more than there are cores: guests and servers often wait, and so does what makes the disk of tests/roundtrip.
check-ready: WORKERS = $$(($$(nproc) + 1))
check-ready: export SLOW := 1
check-ready:
	$(call run_tests,$(FOLDERS))

coverage: ## lines and branches that the hosted tests reach, by folder: build/bench/coverage.json
	@$(PY) tools/workshop/coverage.py

-include $(shell find $(BUILD)/test $(BUILD)/host $(BUILD)/fuzz $(BUILD)/pic $(BUILD)/tsan $(BUILD)/kernel/tests \
	-name '*.d' 2>/dev/null)
.PHONY: coverage unit test needs check-ready FORCE
