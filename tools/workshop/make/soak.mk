# The game for hours, or the trading program at the simulated exchange, over a faulty network: tests/soak/.
SOAK := $(if $(filter trade,$(PROGRAM)),trade,soak)
SOAK_IMAGE := $(call image_folder,$(if $(filter trade,$(PROGRAM)),trade,player))/peregrine.elf
SOAK_SECONDS = $(or $(SECONDS),$(if $(HOURS),$(shell echo $$(( 3600 * $(HOURS) )))))
soak: $(SOAK_IMAGE) ## a game, or PROGRAM=trade SEED=, over a faulty network: HOURS= or SECONDS=; build/bench/
	$(PY) tests/soak/$(SOAK).py $(SOAK_SECONDS:%=--seconds %) $(if $(SEED),--seed $(SEED))
NEEDS_soak := $(BUILD)/peregrine.elf $(call image_folder,trade)/peregrine.elf
.PHONY: soak
