# Deployment: all round trips of a real Debian in QEMU. `make check` goes on the first of them.
check-roundtrip: setup
	@$(MAKE) --no-print-directory $(BUILD)/peregrine.elf $(BUILD)/peregrine.bzImage
	ROUNDTRIP=1 $(PY) -m pytest -q -rs -n 2 tests/roundtrip
.PHONY: check-roundtrip
