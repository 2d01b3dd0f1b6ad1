# Kernels of their own for tests: a main of tests/guest/ in place of image/main.c, everything else as in the image.
GUEST_IMAGES := $(BUILD)/kernel/nic_echo.elf
$(GUEST_IMAGES): $(BUILD)/kernel/%.elf: $(BUILD)/kernel/tests/guest/%.o $(IMAGE)/kernel/symbols_empty.o $(IMAGE_PARTS)
	$(LINK)
NEEDS_guest := $(BUILD)/host/check-settings $(GUEST_IMAGES) $(BUILD)/peregrine.elf $(BUILD)/peregrine.bzImage
