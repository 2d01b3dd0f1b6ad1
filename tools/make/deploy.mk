# Deployment: the round trip of a real Debian in QEMU, by itself. `make check` runs it, too.
check-roundtrip: setup
	@$(MAKE) --no-print-directory $(BUILD)/peregrine.elf
	$(PY) -m pytest -q -rs -n 2 tests/roundtrip
.PHONY: check-roundtrip
