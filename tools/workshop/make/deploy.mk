survey: $(BUILD)/survey/peregrine.elf $(CHECK_SETTINGS_SURVEY) ## the image of tools/peregrine survey --fly
.PHONY: survey

# Deployment: all round trips of a real Debian in QEMU. `make check` goes on the first three. Their disks are made while
# the compilers run, as that mostly waits; if it fails, the test tries again, and says why.
roundtrip-disk:
	@mkdir -p $(BUILD)/roundtrip
	@for disk in 'bookworm grub' 'trixie btrfs'; do \
		tests/roundtrip/make_image.sh $(abspath $(BUILD)/roundtrip) $$disk; \
	done 2>&1 | tee $(BUILD)/roundtrip/disk.log || true
check-roundtrip: setup ## all round trips of a real Debian in QEMU
	@$(MAKE) --no-print-directory $(BUILD)/peregrine.elf $(BUILD)/peregrine.bzImage $(CHECK_SETTINGS) survey
	ROUNDTRIP=1 $(PY) -m pytest -q -rs -n 2 tests/roundtrip
.PHONY: check-roundtrip roundtrip-disk
