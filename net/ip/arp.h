/* ARP: the Ethernet address of an IPv4 neighbour. RFC 826; RFC 1122 §2.3.2 for ageing and for held packets.
 *
 * A bounded table. An entry is fresh for ARP_FRESH_NS, then asked again by unicast while it stays in use, so the
 * gateway's is never missing when an answer must leave. Each connection is counted at the entry of its next hop, and
 * the entry stays. A packet is either initiated (we chose its receiver) or an answer to a stranger, who may have forged
 * his address. Strangers take only places that no connection and no initiated packet needs. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/time.h"
#include "net/ip/ipv4_route.h"
#include "net/netdev.h"

struct net_ip;

enum {
    ARP_SPARE_COUNT = 16,       /* entries without a connection: servers between two games, strangers */
    ARP_CHAIN_COUNT = 64,       /* four or five entries each if 256 connections have their own neighbours */
    ARP_HELD_COUNT_MAX = 16,    /* packets that wait for an answer: the SYNs of a player */
    ARP_HELD_STRANGERS_MAX = 8, /* the part of them for strangers and our datagrams */
    ARP_REQUEST_COUNT_MAX = 3,  /* unanswered ones before the neighbour is called unreachable (Linux: 3) */
};
/* Entries of a stack with `connections` connections. */
#define ARP_ENTRY_COUNT(connections)                                                                                   \
    ((connections)          /* each on the link, and each with a neighbour of its own */                               \
     + IPV4_ROUTE_COUNT_MAX /* gateways, and the neighbour of gwmac= */                                                \
     + ARP_SPARE_COUNT)
#define ARP_REQUEST_INTERVAL_NS NS_PER_S /* RFC 1122 §2.3.2.1: at most one a second */
#define ARP_FRESH_NS            UINT64_C(30000000000)
#define ARP_KEPT_NS             UINT64_C(600000000000) /* after the last packet: a server between games */
#define ARP_DEFEND_INTERVAL_NS  UINT64_C(10000000000)  /* RFC 5227 §1.1: DEFEND_INTERVAL */

enum arp_state {
    ARP_FREE,
    ARP_ASKING, /* no address yet */
    ARP_KNOWN,
    ARP_FAILED, /* no answer; asked again when used */
};

struct arp_entry {
    uint32_t address;
    uint8_t state;         /* enum arp_state */
    uint8_t request_count; /* unanswered ones in a row */
    uint8_t mac[NETDEV_MAC_BYTES];
    uint16_t connection_count; /* connections that copy `mac` into their frames */
    uint16_t next;             /* in the chain: index plus 1; 0: none */
    bool initiated;            /* an initiated packet has gone there */
    uint64_t initiated_ns;     /* the time of the last one; an answer within ARP_KEPT_NS counts */
    uint64_t confirmed_ns;
    uint64_t used_ns;
    uint64_t next_request_ns; /* the earliest time of the next request; UINT64_MAX: none */
};

/* A frame that lacks only its Ethernet destination. */
struct arp_held {
    struct tx_buffer *buffer;
    uint32_t bytes;
    uint32_t next_hop;
    bool initiated;
};

struct arp {
    struct arp_entry *entries;
    uint32_t entry_count;
    /* The first entry of each chain, encoded as `next`. A chain holds the entries in use whose addresses have the same
     * hash. */
    uint16_t chains[ARP_CHAIN_COUNT];
    uint64_t answer_count; /* so far: replies to us */
    uint32_t change_count; /* so far: entries under a connection that became known, changed, or failed */
    uint64_t due_ns;       /* no request is due before */
    uint64_t defend_ns;    /* our address is not defended again before */
    uint32_t held_count;
    struct arp_held held[ARP_HELD_COUNT_MAX]; /* oldest first */
};

/* Makes an empty table in `entries`, which stay the caller's. */
void arp_init(struct net_ip *ip, struct arp_entry *entries, uint32_t count);

/* Counts a connection at the entry of its next hop, which is made if need be and then stays. */
void arp_connection_add(struct net_ip *ip, uint32_t next_hop, uint64_t now_ns);
void arp_connection_remove(struct net_ip *ip, uint32_t next_hop);

/* Returns the connections that are counted at a neighbour's entry. */
uint32_t arp_connection_count(const struct net_ip *ip, uint32_t next_hop);

/* Enters a neighbour's address from the settings. The address serves at once; the next arp_poll asks there whether it
 * still holds. On a point-to-point device nobody is ever asked. */
void arp_set_known(struct net_ip *ip, uint32_t address, const uint8_t mac[NETDEV_MAC_BYTES], uint64_t now_ns);

/* Takes an ARP packet (what follows the Ethernet header). */
void arp_input(struct net_ip *ip, const uint8_t *data, uint32_t bytes, uint64_t now_ns);

/* Takes the address at which a neighbour has completed a handshake: our SYN,ACK went there. A known address stays. */
void arp_answered(struct net_ip *ip, uint32_t address, const uint8_t mac[NETDEV_MAC_BYTES], uint64_t now_ns);

/* Returns the address of a neighbour, or NULL; a request is then on its way. Marks the entry used. */
const uint8_t *arp_lookup(struct net_ip *ip, uint32_t next_hop, bool initiated, uint64_t now_ns);

/* Returns the address of a neighbour if it is known, else NULL. Asks nobody. */
const uint8_t *arp_known(const struct net_ip *ip, uint32_t next_hop);

/* Returns true if a packet that we initiated has gone to a neighbour in the last ARP_KEPT_NS. */
bool arp_is_chosen(const struct net_ip *ip, uint32_t next_hop, uint64_t now_ns);

/* Returns true if a neighbour has not answered its requests. */
bool arp_has_failed(const struct net_ip *ip, uint32_t next_hop);

/* Sends a whole frame to a neighbour, now or when its address is known. The buffer is given away. False: the device's
 * ring is full. A frame that finds no place to wait is lost, as on the wire, and counted: the answer is then true. */
bool arp_send(struct net_ip *ip, struct tx_buffer *buffer, uint32_t bytes, uint32_t next_hop, bool initiated,
              uint64_t now_ns);

/* Asks a neighbour again, because nothing comes back from there (RFC 1122 §2.3.2.1, advice from above). Its entry stays
 * in use. If nobody answers there, an answer to the broadcast replaces the address. */
void arp_doubt(struct net_ip *ip, uint32_t next_hop, uint64_t now_ns);

/* Asks once for an address by broadcast, whatever the table says. */
void arp_request(struct net_ip *ip, uint32_t address);

/* Announces our address on the link (RFC 5227 §3, a gratuitous request). */
void arp_announce(struct net_ip *ip);

/* Forgets everything (a new address), except on a point-to-point device. The owner ends all connections next. */
void arp_flush(struct net_ip *ip);

/* Asks gateways and the neighbours under connections again (a new link); they stay in use. Forgets all others. */
void arp_renew(struct net_ip *ip, uint64_t now_ns);

void arp_poll(struct net_ip *ip, uint64_t now_ns);
uint64_t arp_next_deadline_ns(const struct net_ip *ip);

/* Asserts what holds between two calls. */
void arp_check(const struct net_ip *ip);
