/* Our address, routes and MTU: from the settings, or from DHCP. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "net/ip/dhcp.h"
#include "net/ip/udp.h"
#include "net/netdev.h"

struct net_ip;

/* The settings of an interface. */
struct net_address_config {
    uint32_t address; /* 0: ask DHCP */
    uint32_t mask;
    uint32_t gateway;                      /* 0: none */
    uint8_t gateway_mac[NETDEV_MAC_BYTES]; /* all 0: ask ARP */
    uint32_t lease_seconds;                /* the rest of `address`'s lease, from now; 0: the address is ours */
    uint32_t lease_server;                 /* the DHCP server that renews the lease */
    struct bytes dhcp_identity;            /* lent for the stack's life: net/ip/dhcp.h */
    uint16_t mtu_bytes;                    /* 0: the device's (and DHCP option 26's) */
};

struct net_address {
    struct net_address_config config;
    bool from_dhcp;
    bool link_was_up;
    bool gateway_mac_set;
    uint32_t gateway;       /* the default one in force; 0: none */
    uint32_t lost_count;    /* addresses given up so far */
    uint32_t renewed_count; /* leases that changed the routes or MTU of our address */
    uint32_t lease_serial_seen;
    struct dhcp dhcp;
};

void net_address_init(struct net_ip *ip, const struct net_address_config *config, uint64_t now_ns);

/* Takes a datagram of DHCP's; false for any other. */
bool net_address_datagram(struct net_ip *ip, const struct udp_datagram *datagram, uint64_t now_ns);

/* Follows the link and the lease. Counts `lost_count` up when an address is given up, `renewed_count` when its routes
 * or the MTU change. */
void net_address_poll(struct net_ip *ip, uint64_t now_ns);
uint64_t net_address_next_deadline_ns(const struct net_ip *ip);

/* "link", "DHCP offer", ..., or "" when the network is up. A literal. */
const char *net_address_waiting_for(const struct net_ip *ip);
