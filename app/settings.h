/* The settings: `key=value` words, the same text on GRUB's command line, QEMU's, in a module file and on the Linux
 * player's. Pure: text in, a struct or a message out; knows no clock, no device, no log.
 *
 *     settings_begin(&settings);
 *     settings_add(&settings, "command line", text, bytes, &error)   -- any number of sources, any order
 *     settings_finish(&settings, &error)                             -- what is required is there
 *
 * Words are separated by white space; a `#` at the start of a word is a comment up to the end of its line; there is
 * no quoting. A key may be given once, over all sources together. The first thing wrong ends it: a false result means
 * that nothing of the struct may be used, so a run is never half configured. docs/settings.md lists the keys. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "app/matcher.h"
#include "net/transport.h"

enum {
    SETTINGS_FEED_COUNT_MAX = 8,
    /* A POST's head is at most 376 bytes (net/transport.h), of which 91 are fixed text, address and length; each byte
     * of the name and the password may take three when percent-encoded: 47 * 3 * 2 = 282. */
    SETTINGS_USER_BYTES_MAX = 47,
    SETTINGS_KEY_BYTES_MIN = 8,
    SETTINGS_KEY_BYTES_MAX = 64,        /* SHA-256's block: a longer HMAC key would be hashed first (RFC 2104 §2) */
    SETTINGS_WORD_BYTES_MAX = 31,
    SETTINGS_VIRTIO_MMIO_COUNT_MAX = 32,
    SETTINGS_VIRTIO_MMIO_BYTES_MAX = 63,
    SETTINGS_ERROR_BYTES_MAX = 320,
    SETTINGS_BLACKBOX_COUNT_MAX = 4,
    SETTINGS_BLACKBOX_PAGE_BYTES = 4096,
    SETTINGS_BLACKBOX_BYTES_MAX = 1 << 20,
    SETTINGS_CONTROL_PORT = 0x4747,     /* 18247, "GG" */
};

struct settings_endpoint {
    uint32_t address;                   /* host order; 0: not given */
    uint16_t port;
};

/* Physical memory that keeps the flight record until Linux reads it; docs/blackbox.md. */
struct settings_region {
    uint64_t address;                   /* whole pages both */
    uint32_t bytes;
};

enum settings_wait {
    SETTINGS_WAIT_SPIN,                 /* poll without pause: fastest */
    SETTINGS_WAIT_SLEEP,                /* sleep until something arrives, where the platform can */
};

struct settings {
    /* The game. */
    struct settings_endpoint feeds[SETTINGS_FEED_COUNT_MAX];    /* one per connection: feed= repeated to feeds= */
    uint32_t feed_count;
    struct settings_endpoint submit;
    char user[SETTINGS_USER_BYTES_MAX + 1];
    char passwd[SETTINGS_USER_BYTES_MAX + 1];
    uint32_t n_digits_max;
    uint32_t constant_count;
    char constants[MATCHER_CONSTANT_COUNT_MAX][MATCHER_CONSTANT_DIGITS_MAX + 1];
    enum matcher_simd simd;
    bool early;
    double early_risk;

    /* The network. */
    uint32_t address, mask, gateway;    /* address 0: DHCP */
    uint8_t gateway_mac[NETDEV_MAC_BYTES];
    uint16_t mtu_bytes;                 /* 0: the device's */
    uint32_t rto_min_us;                /* 0: the stack's default */

    /* When to give the machine back. 0: never. */
    uint64_t net_timeout_ns;            /* no usable address for so long */
    uint64_t server_timeout_ns;         /* no digits for so long */
    uint64_t deadline_ns;               /* running for so long */
    uint64_t idle_timeout_ns;           /* no genuine command on the control channel for so long */
    uint64_t breaker_linger_ns;         /* so long after the breaker opened */
    /* When to stop submitting: so many refused results in a window. 0: never. */
    uint32_t breaker_count;
    uint64_t breaker_window_ns;
    /* When to try another connection. 0: never. */
    uint64_t feed_timeout_ns;           /* a feed that is connected and silent for so long */

    /* The control channel; key_bytes 0: off. */
    uint8_t key[SETTINGS_KEY_BYTES_MAX];
    size_t key_bytes;
    uint16_t control_port;
    uint16_t http_port;                 /* of the status page; 0: off */

    /* The machine. */
    enum settings_wait wait;
    uint32_t cpus;                      /* 2: a second one does the idle work, where there is one */
    struct settings_endpoint log;       /* where app/syslog.h sends; address 0: nowhere */
    uint64_t watchdog_ns;               /* the loop may stand still for so long; 0: for ever */
    uint32_t tsc_khz;                   /* as Linux measured it; 0: not told */
    struct settings_region blackbox[SETTINGS_BLACKBOX_COUNT_MAX];
    uint32_t blackbox_count;
    char test_trap[SETTINGS_WORD_BYTES_MAX + 1];        /* "": none */
    uint64_t test_after_ns;             /* of play, before test_trap springs; 0: before anything else */
    uint32_t test_rungs;                /* of the reset ladder, a bit each: enum reset_rung; all, if not given */

    /* Words that boot loaders and virtual machine monitors add are passed over; of these
     * the values of virtio_mmio.device= are kept for the driver, as they stand: "512@0xfeb00e00:12". */
    char virtio_mmio[SETTINGS_VIRTIO_MMIO_COUNT_MAX][SETTINGS_VIRTIO_MMIO_BYTES_MAX + 1];
    uint32_t virtio_mmio_count;

    uint64_t keys_seen;                 /* settings.c's own: a bit for each of settings_keys */
    uint32_t feeds_wanted;              /* settings.c's own: feeds=, 0 when not given */
};

struct settings_error {
    char text[SETTINGS_ERROR_BYTES_MAX];    /* names the word and the source; one line, printable */
};

/* The defaults of docs/settings.md; no key seen. */
void settings_begin(struct settings *settings);

/* Adds the words of one source, named for messages ("command line", a file's name). The text is borrowed for the
 * call, may hold any bytes, and ends after `bytes` or at its first NUL. */
bool settings_add(struct settings *settings, const char *source, const char *text, size_t bytes,
                  struct settings_error *error);

/* Whether what is required was given and the words agree with each other; repeats feed= up to feeds=. */
bool settings_finish(struct settings *settings, struct settings_error *error);

/* The configurations that the settings imply. `device` and `secret` are the caller's to fill in. */
void settings_transport(const struct settings *settings, struct transport_config *config);
void settings_matcher(const struct settings *settings, struct matcher_config *config);
