# The hosted build: the same sources as a Linux program, optimised, for playing and for measuring.

$(BUILD)/host/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(HOST_CFLAGS) $(call cflags_of,$<) -c -o $@ $<

# Every program over Linux sockets: build/host/NAME-linux; the player is peregrine-linux.
HOST_LIBRARY := $(BUILD)/host/libhost.a
$(HOST_LIBRARY): $(patsubst %.c,$(BUILD)/host/%.o,$(wildcard host/*.c net/http/*.c base/*.c) $(SETTINGS_SOURCES) \
	$(CAPTURE_SOURCES) net/transport_path.c $(APP_LIBRARY))
	@rm -f $@
	ar qcs $@ $^
linux_program = $(BUILD)/host/$(if $(filter player,$1),peregrine,$1)-linux
# The kernel's parser of its settings: for `make iso`, for tools/peregrine and for a game's `make run`.
check_settings = $(BUILD)/host/check-settings$(if $(filter-out player,$1),-$1)
define host_program
$(call linux_program,$1): $(patsubst %.c,$(BUILD)/host/%.o,$(call program_files,$1)) $(BUILD)/host/host/main.o \
	$(HOST_LIBRARY)
	$$(CC) -pthread -Wl,-z,now -o $$@ $$^
$(call check_settings,$1): $(patsubst %.c,$(BUILD)/host/%.o,$(call program_files,$1)) \
	$(BUILD)/host/host/check_settings.o $(HOST_LIBRARY)
	$$(CC) -Wl,-z,now -o $$@ $$(filter-out %.a,$$^) $(HOST_LIBRARY)
endef
$(foreach name,$(PROGRAMS),$(eval $(call host_program,$(name))))
LINUX_PROGRAMS := $(foreach name,$(PROGRAMS),$(call linux_program,$(name)))

# The trading program at a recorded day: tools/servers/exchange/replay.py.
REPLAY := $(BUILD)/host/trade-replay
$(REPLAY): $(patsubst %.c,$(BUILD)/host/%.o,$(wildcard app/trade/*.c host/replay/*.c)) $(HOST_LIBRARY)
	$(CC) -pthread -Wl,-z,now -o $@ $^
host: $(REPLAY)

program-linux: $(call linux_program,$(PROGRAM)) ## PROGRAM= alone as a Linux program
.PHONY: program-linux
host: $(LINUX_PROGRAMS) ## the programs and the stack's library as Linux programs

CHECK_SETTINGS := $(call check_settings,player)
CHECK_SETTINGS_SURVEY := $(call check_settings,survey)
CHECK_SETTINGS_ALL := $(foreach name,$(PROGRAMS),$(call check_settings,$(name)))
all host iso: $(call check_settings,$(PROGRAM))
host: $(CHECK_SETTINGS)
NEEDS_hosted := $(LINUX_PROGRAMS)
NEEDS_deploy := $(addprefix $(BUILD)/host/,peregrine-linux survey-linux) $(CHECK_SETTINGS_ALL)
.PHONY: host

# The settings' tables into their page; tests/hosted/test_settings_page.py holds it equal.
# A program's page has a place for its own keys.
PAGES = $(shell grep -l 'settings: made by' $(wildcard app/*/README.md))
docs: $(LINUX_PROGRAMS) ## the pages of settings, from their tables, and of the interface, from the headers
	$(MK)/interface_page.py
	$(MK)/settings_page.py $(call linux_program,player) docs/settings.md
	$(foreach page,$(PAGES),$(MK)/settings_page.py $(call linux_program,$(patsubst app/%/README.md,%,$(page))) \
		$(page) own &&) true
.PHONY: docs

UNIT_EXTRA_player_test := $(FAKE_TRANSPORT)
UNIT_EXTRA_control_test := $(FAKE_TRANSPORT)
UNIT_EXTRA_syslog_test := $(FAKE_TRANSPORT)
UNIT_EXTRA_status_page_test := $(FAKE_TRANSPORT)
UNIT_EXTRA_digest_test := $(filter-out app/digest/program.c,$(wildcard app/digest/*.c)) $(FAKE_TRANSPORT)
UNIT_EXTRA_digest_server_test := $(UNIT_EXTRA_digest_test)
UNIT_EXTRA_digest_work_test := $(UNIT_EXTRA_digest_test)
UNIT_EXTRA_digest_capacity_test := $(UNIT_EXTRA_digest_test)
UNIT_EXTRA_digest_program_test := app/digest/program.c $(UNIT_EXTRA_digest_test)
UNIT_EXTRA_agent_test := $(FAKE_TRANSPORT)
UNIT_EXTRA_nasdaq_link_test := $(FAKE_TRANSPORT)
UNIT_EXTRA_start_test := $(FAKE_TRANSPORT) $(addprefix tests/lib/,netdev_memory.c frame_pool.c)
UNIT_EXTRA_sockets_test := host/sockets.c net/transport_path.c
UNIT_EXTRA_survey_test := app/survey/rows.c app/survey/echo.c $(FAKE_TRANSPORT)

# Our stack as a library (host/library/peregrine_net.h). Only pnet_* is visible.
NET_LIBRARY_OBJECTS := $(patsubst %.c,$(BUILD)/pic/%.o,$(wildcard host/library/*.c) \
	$(filter-out net/transport_%.c net/own/% net/settings.c $(CAPTURE_SOURCES) \
		$(wildcard net/http/*.c) base/hot_section.c, \
		$(NET_SOURCES_own) $(wildcard base/*.c)))
$(BUILD)/pic/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(HOST_CFLAGS) -fPIC -fvisibility=hidden $(call cflags_of,$<) -c -o $@ $<
$(BUILD)/host/libperegrine-net.so: $(NET_LIBRARY_OBJECTS)
	@mkdir -p $(@D)
	$(CC) -shared -Wl,-z,defs,--exclude-libs,ALL -o $@ $^
host: $(BUILD)/host/libperegrine-net.so
NEEDS_netlib := $(BUILD)/host/libperegrine-net.so
-include $(NET_LIBRARY_OBJECTS:.o=.d)
