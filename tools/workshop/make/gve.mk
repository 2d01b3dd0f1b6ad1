# The model of Google's virtual NIC as a device of QEMU: tests/gve/. Not part of `make check`: the first run downloads
# Debian sid's QEMU and kernel, as root.
GVE_DEVICE := $(BUILD)/host/gve-device
$(GVE_DEVICE): $(patsubst %.c,$(BUILD)/host/%.o,$(GVE_MODEL) tests/gve/vfio_user.c net/ip/checksum.c)
	$(CC) -o $@ $^
check-gve: $(GVE_DEVICE) $$(NEEDS_guest) ## Linux's driver of Google's NIC, then ours, on our model of it, in QEMU
	@tests/gve/set_up.sh
	@$(PY) -c 'from workshop.vm import linux_guest; linux_guest.kernel_tree(), linux_guest.program_files()'
	$(OWN_NETWORK) $(PY) -m pytest -rfEs -q tests/gve/linux_driver.py tests/gve/our_driver.py
.PHONY: check-gve
