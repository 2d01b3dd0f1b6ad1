# The hosted build: the same sources as a Linux program, optimised, for playing and for measuring.

$(BUILD)/host/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(HOST_CFLAGS) $(call cflags_of,$<) -c -o $@ $<

# `make run`: its variables come from the environment or from the command line, which make exports by itself;
# tools/run.py lists them.
export STACK BUILD
run-ready: $(BUILD)/peregrine.elf $(BUILD)/peregrine.bzImage
	@$(PY) tools/run.py
.PHONY: run-ready

# The player over Linux sockets.
PEREGRINE_LINUX_OBJECTS := $(patsubst %.c,$(BUILD)/host/%.o,host/main.c host/platform.c host/sockets.c net/http.c \
	$(wildcard kernel/base/*.c app/*.c))
$(BUILD)/host/peregrine-linux: $(PEREGRINE_LINUX_OBJECTS)
	$(CC) -pthread -o $@ $^
host: $(BUILD)/host/peregrine-linux
CHECK_NEEDS += $(BUILD)/host/peregrine-linux
.PHONY: host

UNIT_EXTRA_player_test := tests/unit/fake_transport.c
UNIT_EXTRA_control_test := tests/unit/fake_transport.c
UNIT_EXTRA_syslog_test := tests/unit/fake_transport.c
UNIT_EXTRA_page_test := tests/unit/fake_transport.c
UNIT_EXTRA_sockets_test := host/sockets.c

# Our stack as a library (host/peregrine_net.h). Only pnet_* is visible.
NET_LIBRARY_OBJECTS := $(patsubst %.c,$(BUILD)/pic/%.o,$(wildcard host/peregrine_net*.c) \
	$(filter-out net/transport_own.c net/http.c kernel/base/hot.c,$(NET_SOURCES_own) $(wildcard kernel/base/*.c)))
$(BUILD)/pic/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(HOST_CFLAGS) -fPIC -fvisibility=hidden $(call cflags_of,$<) -c -o $@ $<
$(BUILD)/host/libperegrine-net.so: $(NET_LIBRARY_OBJECTS)
	@mkdir -p $(@D)
	$(CC) -shared -Wl,-z,defs -o $@ $^
host: $(BUILD)/host/libperegrine-net.so
CHECK_NEEDS += $(BUILD)/host/libperegrine-net.so
-include $(NET_LIBRARY_OBJECTS:.o=.d)
