# The hosted build: the same sources as a Linux program, optimised, for playing and for measuring.

$(BUILD)/host/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(HOST_CFLAGS) $(call cflags_of,$<) -c -o $@ $<

# `make run`: what it builds for, and how, comes from the environment (tools/run.py lists the variables).
export STACK NET FIRMWARE BOOT NIC DURATION CPUS MEMORY ROUND SEED BUILD
run-ready: $(BUILD)/peregrine.elf
	@$(PY) tools/run.py
.PHONY: run-ready
