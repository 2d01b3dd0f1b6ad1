/* The settings that every program has, and the joining of all tables. docs/settings.md lists the keys. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/settings.h"

enum {
    SERVICE_KEY_BYTES_MIN = 8,
    SERVICE_KEY_BYTES_MAX = 64, /* SHA-256's block: a longer HMAC key is hashed first (RFC 2104 §2) */
};

enum { SERVICE_CPUS_ALL = 0, SERVICE_CPU_COUNT_MAX = 64 };

enum service_wait {
    SERVICE_WAIT_SPIN,  /* poll without pause: fastest */
    SERVICE_WAIT_SLEEP, /* sleep until something arrives, where the platform can */
};

struct service_settings {
    /* Times after which the machine is given back; 0: never. */
    uint64_t net_timeout_ns;  /* no usable address for this time */
    uint64_t deadline_ns;     /* running for this time */
    uint64_t idle_timeout_ns; /* no genuine command on the control channel for this time */

    uint8_t key[SERVICE_KEY_BYTES_MAX]; /* the control channel's */
    size_t key_bytes;                   /* 0: off */
    uint16_t control_port;
    uint16_t http_port;  /* the status page's; 0: off */
    uint16_t agent_port; /* the agent check's; 0: off */
    struct endpoint log; /* the receiver of app/service/syslog.h; address 0: none */
    enum service_wait wait;
    uint32_t capture_bytes, capture_frames; /* net/capture/capture.h; 0: off */
    bool capture_http;                      /* the status page has the capture */
    uint32_t cpus;                          /* CPUs or threads, the first among them; SERVICE_CPUS_ALL: all */
};

extern struct service_settings service_settings;
extern const struct settings_table service_settings_table;

/* Begins a reading of the program's keys, the service's, the network's and the machine's (NULL: none). Messages have
 * the program's name. */
void service_settings_begin(struct settings *settings, const char *name, const struct settings_table *program,
                            const struct settings_table *machine);
