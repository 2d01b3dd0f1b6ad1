# The time program, app/time/: its tests, and the public programs that it is measured beside.

# The program's parts without the seam, for tests that play a part of it.
TIME_PARTS := $(filter-out app/time/program.c app/time/settings.c,$(wildcard app/time/*.c))
UNIT_EXTRA_ntp_client_test := $(FAKE_TRANSPORT)

TIME_IMAGE := $(BUILD)/time/peregrine.elf
bench-time: $(TIME_IMAGE) $(BUILD)/host/tools/workshop/probe/vhost_probe ## NTP against chronyd; QUICK=1, ROUNDS=3
	$(PY) tests/bench/bench_time.py
drift-time: $(TIME_IMAGE) ## the kernel's clock less that of this host's chronyd; MINUTES=10
	$(PY) tests/bench/bench_time.py drift $(or $(MINUTES),10)
.PHONY: bench-time drift-time
