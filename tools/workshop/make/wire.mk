# Timelines of segments, tests/wire/: one interpreter for all of them, under ASan and UBSan.
WIRE_TIMELINE := $(BUILD)/test/tests/wire/timeline
$(WIRE_TIMELINE): $(patsubst %.c,$(BUILD)/test/%.o,$(wildcard tests/wire/*.c) tests/lib/igmp_packet.c) \
		$(BUILD)/test/libperegrine.a
	$(CC) $(TEST_LINK) -o $@ $^

wire: $(WIRE_TIMELINE) ## the timelines of tests/wire
	$(PY) -m pytest -q tests/wire
NEEDS_wire := $(WIRE_TIMELINE)
.PHONY: wire
