/* ARP: which Ethernet address an IPv4 neighbour has. RFC 826; RFC 1122 §2.3.2 for ageing and for held packets.
 *
 * A bounded table. An entry is believed for ARP_FRESH_NS, then asked again, directly, while it stays in use: so the
 * gateway's is never missing when an answer must leave. Only neighbours we asked for, or who asked for us, get in. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/netdev.h"

struct net_stack;

enum {
    ARP_ENTRY_COUNT = 32,               /* the gateway, the contest's servers, 8 players of a LAN, as much to spare */
    ARP_HELD_COUNT_MAX = 16,            /* packets waiting for an answer: the SYNs of all connections */
    ARP_REQUEST_COUNT_MAX = 3,          /* unanswered ones before the neighbour is called unreachable (Linux: 3) */
};
#define ARP_REQUEST_INTERVAL_NS UINT64_C(1000000000)    /* RFC 1122 §2.3.2.1: at most one a second */
#define ARP_FRESH_NS UINT64_C(30000000000)
#define ARP_DEFEND_INTERVAL_NS UINT64_C(10000000000)    /* RFC 5227 §1.1: DEFEND_INTERVAL */

enum arp_state {
    ARP_FREE,
    ARP_ASKING,                         /* no address yet */
    ARP_KNOWN,
    ARP_FAILED,                         /* no answer; asked anew when used after an interval */
    ARP_STATIC,                         /* from the settings: never asked, never changed */
};

struct arp_entry {
    enum arp_state state;
    uint32_t address;
    uint8_t mac[NETDEV_MAC_BYTES];
    uint8_t request_count;              /* unanswered ones in a row */
    uint64_t confirmed_ns;
    uint64_t used_ns;
    uint64_t next_request_ns;
};

/* A frame whose Ethernet destination is all that is missing. */
struct arp_held {
    struct tx_buffer *buffer;
    uint32_t bytes;
    uint32_t next_hop;
};

struct arp {
    struct arp_entry entries[ARP_ENTRY_COUNT];
    uint64_t defend_ns;                 /* our address is not defended again before */
    uint32_t held_count;
    struct arp_held held[ARP_HELD_COUNT_MAX];   /* oldest first */
};

void arp_set_static(struct net_stack *stack, uint32_t address, const uint8_t mac[NETDEV_MAC_BYTES], uint64_t now_ns);

/* Takes an ARP packet (what follows the Ethernet header). */
void arp_input(struct net_stack *stack, const uint8_t *data, uint32_t bytes, uint64_t now_ns);

/* The address of a neighbour, or NULL; a request is then on its way. Marks the entry used. */
const uint8_t *arp_lookup(struct net_stack *stack, uint32_t next_hop, uint64_t now_ns);

/* Sends a whole frame to a neighbour, now or when its address is known. The buffer is given away, published or not;
 * false: it was dropped (counted). */
bool arp_send(struct net_stack *stack, struct tx_buffer *buffer, uint32_t bytes, uint32_t next_hop, uint64_t now_ns);

/* Doubt about a neighbour (RFC 1122 §2.3.2.1, negative advice from above): asks it again, its entry stays in use. */
void arp_doubt(struct net_stack *stack, uint32_t next_hop, uint64_t now_ns);

/* Says on the link who has our address (RFC 5227 §3, a gratuitous request), when we have just taken it. */
void arp_announce(struct net_stack *stack);

/* Forgets everything but static entries (a new address, a new link). */
void arp_flush(struct net_stack *stack);

void arp_tend(struct net_stack *stack, uint64_t now_ns);
uint64_t arp_wake_ns(const struct net_stack *stack);
