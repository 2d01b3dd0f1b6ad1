# The game for hours over a faulty network: tests/soak/soak.py.
soak: $(BUILD)/peregrine.elf ## a game over a faulty network: HOURS=1 or SECONDS=; build/bench/soak.json
	$(PY) tests/soak/soak.py --seconds $(or $(SECONDS),$(shell echo $$(( 3600 * $(or $(HOURS),1) ))))
NEEDS_soak := $(BUILD)/peregrine.elf
.PHONY: soak
