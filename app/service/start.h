/* The start that all platforms share: settings, then the network, then the program. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct netdev;

/* A platform's part. */
struct start_platform {
    struct netdev *device; /* NULL: the transport needs none */
    /* Returns how many other cards could be put into `device`; and puts the next one there. NULL: there are none. */
    size_t (*cards_left)(void);
    void (*card_next)(void);
    uint64_t tsc_khz;
    bool has_helper; /* another CPU or thread calls status_page_render */
    uint64_t (*now_ns)(void);
    uint64_t wall_error_ns; /* the largest error of log_wall_origin_ns */
    void (*random)(void *out, size_t bytes);
    /* Hands out zeroed memory that is never given back. NULL if the platform's transport needs none. */
    void *(*memory_take)(size_t bytes, size_t align, const char *who);
    void (*beat)(void); /* after each long step: shows the watchdog progress; may be NULL */
};

/* Starts the linked program with the settings that have been read, and registers the statistics. Returns NULL, or
 * the reason why that cannot be. */
const char *program_start(const struct start_platform *platform);

/* Sends the rest of the log over UDP, at the end: a line whenever it is called. False: nothing more can be sent. */
bool program_flush_step(uint64_t now_ns);
