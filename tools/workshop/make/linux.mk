# Our stack against Linux' over an impaired path: tests/linux/. A few cases in make check, all by make check-linux.
LINUX_INTEROP := $(BUILD)/host/tests/linux/interop
$(LINUX_INTEROP): $(patsubst %.c,$(BUILD)/host/%.o,$(wildcard tests/linux/*.c) \
		$(addprefix tests/lib/,transit.c assert_abort.c)) $(BUILD)/host/libperegrine-net.so
	$(CC) -o $@ $^ -Wl,-rpath,'$$ORIGIN/../..'
NEEDS_linux := $(LINUX_INTEROP)

check-linux: $(LINUX_INTEROP) ## our stack against Linux' over an impaired path, all cases
	$(PY) tests/linux/against_linux.py
.PHONY: check-linux
