/* What the port's files know of each other. transport.c: connections. events.c: what is still to be told of them.
 * datagrams.c: UDP. interface.c: frames in and out. network.c: addresses, routes, DHCP. timers.c: what lwIP wants done
 * periodically. icmp_error.c: SYNs turned away. hooks.c: what lwIP calls. counters.c: its statistics as counters. */
#pragma once

#include "lwip/netif.h"
#include "lwip/pbuf.h"
#include "lwip/tcp.h"

#include "net/siphash.h"
#include "net/transport.h"

/* interface.c --------------------------------------------------------------------------------------------------- */

/* The one interface, after interface_init. */
extern struct netif interface;

void interface_init(struct netdev *device);

/* Takes one frame from the device and lets lwIP process it. False when there was none. */
bool interface_input(void);

/* True once after a frame could not be sent for want of a transmit buffer: lwIP keeps it, and wants tcp_txnow later. */
bool interface_take_stalled(void);

/* The link as the device sees it, told to lwIP; the MTU, at most the device's. */
void interface_set_link(bool up);
void interface_set_mtu(uint16_t mtu_bytes);

/* icmp_error.c -------------------------------------------------------------------------------------------------- */

/* A segment of ours that was turned away for good. Host order. */
struct icmp_error {
    enum transport_reason reason;
    uint32_t local_address, address, seq;
    uint16_t local_port, port;
};

/* Whether an IPv4 packet is such an error. Its header must lie whole within the frame, and its length too. */
bool icmp_error_parse(const uint8_t *packet, struct icmp_error *error);

/* transport.c --------------------------------------------------------------------------------------------------- */

/* Ends the connection whose SYN that was, if there is one. */
void transport_unreachable_heard(const struct icmp_error *error);

/* events.c ------------------------------------------------------------------------------------------------------ */

struct queued_event {
    struct transport_event event;       /* without data and bytes, which `chain` has */
    struct pbuf *chain;                 /* DATA, DATAGRAM: given to the queue */
};

/* A new event at the end of the queue, to be filled in; of no connection yet. */
struct queued_event *events_add(enum transport_event_kind kind);

/* Nothing that is queued of a connection will be told. */
void events_forget(int connection);

bool events_waiting(void);

/* Takes back what was lent, then hands out the oldest event, of a chain one pbuf at a time. False: there is none. */
bool events_take(struct transport_event *event);

/* network.c ----------------------------------------------------------------------------------------------------- */

bool network_init(const struct transport_config *config, uint64_t now_ns);
void network_tend(uint64_t now_ns);
uint64_t network_wake_ns(void);

/* Whether packets to an address have somewhere to go, and whether the next hop's MAC is known. */
bool network_has_route(uint32_t address);
bool network_has_neighbour(uint32_t address);

/* timers.c ------------------------------------------------------------------------------------------------------ */

void timers_init(uint32_t rto_min_us, uint64_t now_ns);
void timers_run(uint64_t now_ns);
uint64_t timers_wake_ns(void);

/* RFC 6298 §2.2: the first round trip, that of the SYN, sets the estimate. Called when a connection opens. */
void timers_first_sample(struct tcp_pcb *pcb);

/* hooks.c ------------------------------------------------------------------------------------------------------- */

void hooks_init(const uint8_t secret[32]);

/* The clock of RFC 6528's M, set by every call from above that carries a time. */
extern uint64_t hooks_now_ns;

/* A key for another module's random numbers. */
struct siphash_key hooks_key(void);

/* The callback argument of the connection that the last frame was for; NULL: none. Taking it clears it. */
void *hooks_take_segment_owner(void);

/* counters.c ---------------------------------------------------------------------------------------------------- */

struct port_counters {
    uint64_t rx_frames, rx_drop_other_mac, rx_drop_truncated, rx_drop_bad_arp_sender, rx_drop_no_pbuf, rx_copied;
    uint64_t tx_frames, tx_drop_no_buffer, tx_drop_oversize;
    uint64_t udp_drop_oversize, accept_drop_no_connection, events_max, network_drop_bad_mtu;
};
extern struct port_counters port_counters;

bool counters_group(size_t index, struct counter_group *group);

/* Brings lwIP's figures into the counters: about 100 words. */
void counters_refresh(void);
