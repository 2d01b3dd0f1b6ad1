# Deployment: the round trip of a real Debian in QEMU, by itself: `make check` does not run it yet.
check-roundtrip: setup
	@$(MAKE) --no-print-directory $(BUILD)/peregrine.elf $(BUILD)/peregrine.bzImage
	ROUNDTRIP=1 $(PY) -m pytest -q -rs -n 2 tests/roundtrip
.PHONY: check-roundtrip
