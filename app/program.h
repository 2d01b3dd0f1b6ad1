/* The seam between the machine and the program that runs on it. image/main.c and host/main.c know this header and
 * app/service/, and no program. A folder app/NAME/ with a program.c, which defines `program`, is a program:
 * `make PROGRAM=NAME`.
 *
 * A program sees the network through net/transport.h, the other CPUs through app/service/work.h, and what every program
 * has through app/service/service.h. Idle time rehearses its answers: app/service/rehearsal.h. Its memory is static:
 * the linker counts it. It knows no device, no operating system, and no clock but the one that it is handed. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/settings.h"

/* The reason why a program's loop ends. */
enum program_verdict {
    PROGRAM_ON,           /* the loop does not end */
    PROGRAM_GG,           /* ordered over the control channel; its answer has been sent */
    PROGRAM_FINISHED,     /* the program's: its work is done */
    PROGRAM_NETWORK_LOST, /* net.timeout= */
    PROGRAM_DEADLINE,     /* deadline= */
    PROGRAM_IDLE,         /* idle.timeout= */
    PROGRAM_SERVER_LOST,  /* the program's: its server is gone */
    PROGRAM_STOPPED,      /* the program's: `stopped` says why */
};

/* The machine's gifts to a program at its start. */
struct program_machine {
    uint64_t tsc_khz;         /* turns the stamps of base/trace.h into nanoseconds */
    uint64_t (*now_ns)(void); /* reads the turn's clock again, for stamps of one moment */
    uint64_t wall_error_ns;   /* the largest error of log_wall_origin_ns (base/log.h) */
    uint8_t secret[32];       /* fresh random bytes */
    /* Tells a watchdog, between parts of long work, that the program progresses. May be NULL. */
    void (*beat)(void);
};

struct program {
    const char *name;                      /* the folder's */
    const struct settings_table *settings; /* the program's keys */
    const char *stopped;                   /* "submit breaker": PROGRAM_STOPPED in words; NULL: it never stops */

    /* Capacities: what it takes of the transport besides app/service/service.h. */
    uint32_t connection_count, listener_count, udp_port_count;

    /* Returns true if the settings ask for a machine that uses no vector registers. NULL: they never do. Called when
     * the words are read, before settings_finish. */
    bool (*wants_plain_cpu)(void);

    /* Checks the settings and builds what takes long, before the network comes up. NULL, or a message. May be NULL. */
    const char *(*prepare)(const struct program_machine *machine);

    /* Begins, after transport_init: registers statistics, binds ports. NULL, or a message. */
    const char *(*init)(const struct program_machine *machine, uint64_t now_ns);

    /* One turn: takes the transport's events, works a few microseconds, and calls service_poll and transport_idle. */
    enum program_verdict (*turn)(uint64_t now_ns);

    /* Returns when the next turn has something to do if nothing arrives before: at most `now_ns` while work is left. */
    uint64_t (*next_deadline_ns)(uint64_t now_ns);

    /* Returns how much more work the program could take now, in percent of an amount that is the same on all machines
     * of a balancer. The result may exceed 100. For agent.port= (app/service/agent.h). NULL: the program has no
     * measure, and agent.port= is refused. */
    uint32_t (*free_percent)(void);
};

/* The one that is linked. */
extern const struct program program;
