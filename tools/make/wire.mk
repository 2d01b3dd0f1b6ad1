# Timelines of segments, tests/wire/: one interpreter for all of them, under ASan and UBSan.
WIRE_TIMELINE := $(BUILD)/test/tests/wire/timeline
$(WIRE_TIMELINE): $(patsubst %.c,$(BUILD)/test/%.o,$(wildcard tests/wire/*.c)) $(BUILD)/test/libperegrine.a
	$(CC) -fsanitize=address,undefined -o $@ $^

wire: $(WIRE_TIMELINE)
	$(PY) -m pytest -q tests/wire
CHECK_NEEDS += $(WIRE_TIMELINE)
.PHONY: wire
