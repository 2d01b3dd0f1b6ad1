# Our stack against Linux' over an impaired path: tests/linux/. A few cases in make check, all by make check-linux.
LINUX_DUEL := $(BUILD)/host/tests/linux/duel
$(LINUX_DUEL): $(patsubst %.c,$(BUILD)/host/%.o,$(wildcard tests/linux/*.c)) $(BUILD)/host/libperegrine-net.so
	$(CC) -o $@ $^ -Wl,-rpath,'$$ORIGIN/../..'
CHECK_NEEDS += $(LINUX_DUEL)

check-linux: $(LINUX_DUEL)
	$(PY) tests/linux/against_linux.py
.PHONY: check-linux
