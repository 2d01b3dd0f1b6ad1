/* Reports of the network about our segments. */
#pragma once

#include "net/ip/icmp.h"
#include "net/tcp/connection.h"

/* Takes an ICMP error that quotes one of our segments. */
void tcp_icmp_error(struct net_stack *stack, const struct icmp_error *error, uint64_t now_ns);
/* Takes the link's MTU and the routes of all connections, and ARP's knowledge of the neighbours: addresses known,
 * changed, or not to be had. */
void tcp_next_hops_changed(struct net_stack *stack, uint64_t now_ns);
/* Ends all connections: our address is no longer ours. */
void tcp_address_lost(struct net_stack *stack);
