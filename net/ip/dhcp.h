/* DHCP client: RFC 2131, options of RFC 2132, classless static routes of RFC 3442. Bytes and time in, bytes out.
 *
 * Knows no stack: its owner carries its messages in UDP from port 68 to port 67 and back, also while there is no
 * address. The server may send to the address that it is about to lend, or to 255.255.255.255. One turn of the owner:
 *
 *     each datagram to port 68:             dhcp_input(&dhcp, payload, bytes, sender, now_ns);
 *     dhcp_next_deadline_ns is past:        bytes = dhcp_output(&dhcp, buffer, &source, &destination, now_ns);
 *                                           if (bytes != 0) send the message
 *     dhcp.lease_serial has changed:        configure from dhcp_lease; if that is NULL, give the address up
 *
 * Not done: probing the address before use (DHCPDECLINE), releasing it, INFORM. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/counters.h"
#include "base/siphash.h"
#include "net/ip/dhcp_wire.h"

enum {
    DHCP_SERVER_PORT = 67,
    DHCP_CLIENT_PORT = 68,
    DHCP_OUTPUT_BYTES_MIN = 300, /* BOOTP's smallest message: RFC 1542 §2.1, some servers drop shorter ones */
    DHCP_OUTPUT_BYTES_MAX = 548, /* a datagram of 576 bytes, which every host takes: RFC 2131 §2 */
    DHCP_IDENTITY_BYTES_MAX = 256,
    DHCP_ROUTE_COUNT_MAX = 8, /* further ones are counted and left out */
};

/* A route of option 121. Host order. */
struct dhcp_route {
    uint32_t network, mask;
    uint32_t gateway; /* 0: the destination is on the link */
};

struct dhcp_lease {
    uint32_t address, mask, server;                 /* host order; a usable unicast address each, the mask contiguous */
    uint32_t gateway;                               /* default gateway, of option 121, else of option 3; 0: none */
    bool all_on_link;                               /* the default route has no gateway: every address is on the link */
    struct dhcp_route routes[DHCP_ROUTE_COUNT_MAX]; /* without the default route */
    size_t route_count;
    uint16_t mtu_bytes;                      /* 0: the server named none */
    uint64_t renews_ns, rebinds_ns, ends_ns; /* T1, T2 and the end; UINT64_MAX: never */
};

/* RFC 2131 §4.4, figure 5. */
enum dhcp_state {
    DHCP_INIT, /* a DISCOVER is due, at once or after a back-off */
    DHCP_SELECTING,
    DHCP_REQUESTING,
    DHCP_BOUND,
    DHCP_RENEWING,
    DHCP_REBINDING,
};

struct dhcp {
    enum dhcp_state state;
    uint8_t mac[6];
    struct bytes identity;  /* options that stand in every message of ours */
    struct siphash_key key; /* makes transaction ids and jitter */
    uint64_t drawn;         /* random numbers drawn so far */
    uint32_t xid;
    uint64_t began_ns;       /* the start of this exchange, from which `secs` counts */
    uint16_t secs;           /* the field in the message sent last: RFC 2131 §2, table 1 */
    uint64_t asked_ns;       /* the first message of this state, from which a lease counts */
    uint64_t due_ns;         /* when dhcp_output has something to do */
    uint32_t tries;          /* messages of this state sent so far */
    struct dhcp_lease offer; /* SELECTING, REQUESTING: address and server that were offered */
    struct dhcp_lease lease; /* BOUND and later */
    uint32_t lease_serial;   /* counts up each time the lease is taken, changed or lost */
};

/* Returns true if the client writes an option itself: address, overload, type, server, parameters, size. */
static inline bool dhcp_option_is_own(uint8_t option)
{
    return option == DHCP_OPTION_ADDRESS || option == DHCP_OPTION_SIZE
           || (option >= DHCP_OPTION_OVERLOAD && option <= DHCP_OPTION_PARAMETERS);
}

/* Asks for an address again. The key makes the transaction ids unpredictable. `identity` is
 * borrowed until the next start: whole options, at most DHCP_IDENTITY_BYTES_MAX bytes. By them the server knows the
 * machine: client identifier (RFC 2131 §4.2: the same one in all messages), host name, vendor class. */
void dhcp_start(struct dhcp *dhcp, const uint8_t mac[6], struct bytes identity, struct siphash_key key,
                uint64_t now_ns);

/* Begins with a lease that somebody else has got for this machine, at `lease`'s address, mask, gateway and server.
 * `seconds` of it are left from now on; UINT32_MAX: it never ends. The client renews it as if it had asked: RFC 2131
 * §4.4.5. */
void dhcp_resume(struct dhcp *dhcp, const uint8_t mac[6], struct bytes identity, struct siphash_key key,
                 const struct dhcp_lease *lease, uint32_t seconds, uint64_t now_ns);

/* Takes a datagram's payload, which is only read, and the datagram's source (host order). A message that does not fit
 * is dropped and counted by reason. */
void dhcp_input(struct dhcp *dhcp, const uint8_t *message, size_t bytes, uint32_t sender, uint64_t now_ns);

/* Writes the message that is due, if any, and where it goes from and to (host order; 0 is 0.0.0.0). Returns its bytes,
 * 0 when there is none. Also lets a lease end. */
size_t dhcp_output(struct dhcp *dhcp, uint8_t message[DHCP_OUTPUT_BYTES_MAX], uint32_t *source, uint32_t *destination,
                   uint64_t now_ns);

/* Returns the time at which to call dhcp_output next; UINT64_MAX: not before a datagram has come. */
uint64_t dhcp_next_deadline_ns(const struct dhcp *dhcp);

/* Returns the lease in force; NULL: none. */
const struct dhcp_lease *dhcp_lease(const struct dhcp *dhcp);

/* Returns the name of the message that is awaited, a literal: "DHCP offer", "DHCP acknowledgement", "" when it has a
 * lease. */
const char *dhcp_waiting_for(const struct dhcp *dhcp);

/* Asserts what holds between two calls. */
void dhcp_check(const struct dhcp *dhcp);

extern const struct counter_group dhcp_counter_group;
