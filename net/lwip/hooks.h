/* The hooks: functions of the port that lwIP calls (LWIP_HOOK_FILENAME). lwIP's sources include this after their own
 * headers. */
#pragma once

#include "lwip/err.h"
#include "lwip/ip_addr.h"

struct tcp_pcb;
struct tcp_hdr;
struct netif;
struct pbuf;

/* RFC 6528: Returns the initial sequence number of a connection. Ports are host order. */
u32_t lwip_port_isn(const ip_addr_t *local, u16_t local_port, const ip_addr_t *remote, u16_t remote_port);
#define LWIP_HOOK_TCP_ISN lwip_port_isn

/* Records the connection (or the listener) that the segment in hand belongs to, and closes the segment's options.
 * Always returns ERR_OK: go on. The options follow the header; if the pbuf ends within them, the rest stands at
 * option2. */
err_t lwip_port_segment_seen(struct tcp_pcb *pcb, struct tcp_hdr *header, u16_t option_bytes, u16_t option1_bytes,
                             u8_t *option2);
#define LWIP_HOOK_TCP_INPACKET_PCB(pcb, header, option_bytes, option1_bytes, option2, p)                               \
    lwip_port_segment_seen(pcb, header, option_bytes, option1_bytes, option2)

/* Corrects the flags of a segment that is about to leave. Returns `options`, the end of the options written so far. */
u32_t *lwip_port_segment_leaves(const struct tcp_pcb *pcb, struct tcp_hdr *header, u32_t *options);
#define LWIP_HOOK_TCP_OUT_ADD_TCPOPTS(p, header, pcb, options) lwip_port_segment_leaves(pcb, header, options)

/* Returns the next hop towards a destination outside the interface's network; NULL: none. */
const ip4_addr_t *lwip_port_next_hop(struct netif *netif, const ip4_addr_t *destination);
#define LWIP_HOOK_ETHARP_GET_GW lwip_port_next_hop
