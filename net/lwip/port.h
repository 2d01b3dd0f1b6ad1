/* The interfaces between the files of the lwIP port.
 *
 *   transport.c    connections
 *   events.c       the queue of events that have not been returned yet
 *   datagrams.c    UDP
 *   groups.c       multicast groups
 *   interface.c    frames in and out
 *   network.c      addresses, routes, DHCP
 *   timers.c       lwIP's periodic work
 *   icmp_error.c   SYNs that were refused by ICMP, and the errors that may be sent
 *   hooks.c        functions that lwIP calls
 *   counters.c     lwIP's statistics as counters */
#pragma once

#include "lwip/netif.h"
#include "lwip/pbuf.h"
#include "lwip/tcp.h"

#include "base/counters.h"
#include "base/siphash.h"
#include "net/transport_path.h"

/* ---- interface.c ---- */

/* The only interface, valid after interface_init. */
extern struct netif interface;

void interface_init(struct netdev *device);

/* A segment of ours that an ICMP error refuses for good. Host order. */
struct icmp_error {
    enum transport_reason reason;
    uint32_t local_address, address, seq;
    uint16_t local_port, port;
};

/* Takes one frame from the device and lets lwIP process it. Returns false when there was none. `refused` is the ICMP
 * error in the frame; its port is 0 if the frame has none. */
bool interface_input(struct icmp_error *refused);

/* Returns true once after a frame found no transmit buffer. lwIP keeps the segment, and tcp_txnow sends it later. */
bool interface_take_stalled(void);

/* Reports the link's state, as the device sees it, to lwIP. */
void interface_set_link(bool up);

/* Sets the MTU, at most the device's. */
void interface_set_mtu(uint16_t mtu_bytes);

/* ---- icmp_error.c ---- */

/* Returns true if an IPv4 packet carries such an error; else the ports of `error` stay as they were. The packet must
 * lie whole within the frame. */
bool icmp_error_parse(const uint8_t *packet, struct icmp_error *error);

/* Returns true if an IPv4 packet of lwIP's may be sent over `netif`. Returns false for an error that is forbidden or
 * beyond the rate, and counts it. */
bool icmp_error_may_leave(const struct netif *netif, const uint8_t *packet);

/* ---- events.c ---- */

struct queued_event {
    struct transport_event event; /* without data and bytes, which `chain` has */
    struct pbuf *chain;           /* DATA, DATAGRAM: given to the queue */
};

/* Adds an event at the end of the queue and returns the event for the caller to fill in. Its connection is -1. */
struct queued_event *events_add(enum transport_event_kind kind);

/* Drops all queued events of a connection. */
void events_forget(int connection);
/* Takes the data of a connection out of the queue, the peer's end, and an end in order. Gives the data, or NULL; sets
 * *ended and *done. */
struct pbuf *events_set_aside(int connection, bool *ended, bool *done);

bool events_waiting(void);

/* Frees the pbuf of the event before, then hands out the oldest event. A chain is handed out one pbuf at a time.
 * Returns false if the queue is empty. */
bool events_take(struct transport_event *event);

/* ---- network.c ---- */

bool network_init(const struct transport_config *config, uint64_t now_ns);
void network_poll(uint64_t now_ns);
uint64_t network_next_deadline_ns(void);

/* Enters the gateway of gwmac= again if its entry has grown too old, at the address that it had last: some gateways
 * forward and answer no ARP. Call once a second, after lwIP's own ageing. */
void network_keep_gateway(void);

/* Returns true if packets to an address have a route. */
bool network_has_route(uint32_t address);

/* Returns true if the MAC of the next hop towards an address is known. */
bool network_has_neighbour(uint32_t address);

/* ---- timers.c ---- */

void timers_init(uint32_t rto_min_us, uint64_t now_ns);
void timers_run(uint64_t now_ns);
uint64_t timers_next_deadline_ns(void);

/* RFC 6298 §2.2: Sets the estimate from the first round trip, the SYN's. Called when a connection opens. */
void timers_first_sample(struct tcp_pcb *pcb);

/* ---- groups.c ---- */

/* Returns true if a group is joined, besides that of all systems, which lwIP always has. */
bool groups_joined(void);

/* Gives the device's filter the Ethernet addresses of all groups. */
void groups_filter_set(void);

/* ---- hooks.c ---- */

void hooks_init(const uint8_t secret[32]);

/* The clock for RFC 6528's M. Every call of the transport's interface that carries a time sets this clock. */
extern uint64_t hooks_now_ns;

/* Returns a key for another module's random numbers. */
struct siphash_key hooks_key(void);

/* Returns the callback argument of the connection that the last frame belonged to, and forgets the argument. NULL:
 * none. */
void *hooks_take_segment_owner(void);

/* ---- counters.c ---- */

#define PORT_COUNTERS(X)                                                                                               \
    X(COUNT, rx_frames), X(COUNT, rx_arp_answers), X(COUNT, rx_copied), X(DROP_FRAME, rx_drop_truncated),              \
        X(DROP_FRAME, rx_drop_other_mac), X(DROP_FRAME, rx_drop_vlan), X(DROP_FRAME, rx_drop_bad_arp_sender),          \
        X(DROP_FRAME, rx_drop_no_pbuf), X(COUNT, tx_frames), X(DROP, tx_drop_no_buffer), X(DROP, tx_drop_oversize),    \
        X(DROP, tx_drop_icmp_forbidden), X(DROP, tx_drop_icmp_rate), X(DROP_FRAME, udp_drop_oversize),                 \
        X(DROP_FRAME, accept_drop_no_connection), X(DROP_FRAME, network_drop_bad_mtu), X(LEVEL, events_max)
extern struct port_counters {
    uint64_t PORT_COUNTERS(COUNTER_MEMBER);
} port_counters;

bool counters_group(size_t index, struct counter_group *group);

/* Copies lwIP's statistics into the counters: about 100 words. */
void counters_refresh(void);
