/* Multicast reception: the groups that are joined, and IGMP's host side, which reports them to routers and switches.
 * RFC 9776 (version 3), RFC 2236 (version 2), RFC 1112 (version 1, and multicast itself).
 *
 * A group is joined for any source. Nothing is sent to groups except IGMP's own messages.
 *
 * The rest of the stack reads `received`, and calls `operations`. Both are empty until the first join. The linker
 * therefore leaves net/ip/igmp.c out of an image whose program joins nothing. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "net/ip/ipv4.h"
#include "net/ip/ipv4_route.h"
#include "net/netdev.h"

struct net_ip;

enum {
    IGMP_GROUP_COUNT_MAX = NETDEV_GROUP_COUNT_MAX - 1, /* the other one is that of all systems */
    IGMP_SOURCE_COUNT_MAX = 7,                         /* one record then fits into IPV4_MTU_BYTES_MIN */
};

struct igmp_group {
    uint32_t address;     /* 0: the place is free */
    bool joined;          /* false: the group is left, which is still to be reported */
    bool last_reporter;   /* versions 1 and 2: the latest report that was seen is ours */
    uint8_t reports_left; /* reports of the latest change that are to be sent */
    uint64_t change_ns;   /* the time of the next one; UINT64_MAX: none */
    /* The time of the answer to queries about this group; UINT64_MAX: none is due. */
    uint64_t answer_ns;
    uint32_t source_count; /* the answer is about these sources; 0: about the group */
    uint32_t sources[IGMP_SOURCE_COUNT_MAX];
};

struct igmp_operations {
    /* Takes a message that came by IPv4. */
    void (*accept)(struct net_ip *ip, const struct ipv4_packet *packet, uint64_t now_ns);
    /* Sends the reports that are due. */
    void (*poll)(struct net_ip *ip, uint64_t now_ns);
};

struct igmp {
    const struct igmp_operations *operations; /* NULL: no group has been joined yet */
    uint32_t received_count;
    /* The joined groups, and with any of them that of all systems. */
    uint32_t received[NETDEV_GROUP_COUNT_MAX];

    /* All groups are to be reported again: the link or our address is new. net/ip/address.c sets it. */
    bool announce;
    bool filter_stale; /* the device does not know `received` yet */
    uint8_t version;   /* the host compatibility mode: RFC 9776 §7.2.1 */
    uint64_t due_ns;   /* nothing is to be done before */
    /* Version 3: the time of the answer to general queries; UINT64_MAX: none is due. */
    uint64_t answer_ns;
    uint64_t older_ends_ns[2]; /* a querier of version 1, of version 2, is present until then */
    struct igmp_group groups[IGMP_GROUP_COUNT_MAX];
};

/* Receives the datagrams to a group, from any source. Returns false if the address is no group or that of all systems,
 * or if the table is full; true if the group is joined already. */
bool igmp_join(struct net_ip *ip, uint32_t group);

/* Receives a group no more. A group that is not joined is ignored. */
void igmp_leave(struct net_ip *ip, uint32_t group);

/* Asserts what holds between two calls. */
void igmp_check(const struct net_ip *ip);
