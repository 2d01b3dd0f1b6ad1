/* What lwIP calls in the port (LWIP_HOOK_FILENAME). Included by lwIP's sources after their own headers. */
#pragma once

#include "lwip/err.h"
#include "lwip/ip_addr.h"

struct tcp_pcb;
struct tcp_hdr;
struct netif;
struct pbuf;

/* Initial sequence numbers: RFC 6528. Ports are host order. */
u32_t lwip_port_isn(const ip_addr_t *local, u16_t local_port, const ip_addr_t *remote, u16_t remote_port);
#define LWIP_HOOK_TCP_ISN lwip_port_isn

/* Notes which connection the segment being processed belongs to (listeners' pcbs too), and closes its options. Always
 * ERR_OK: go on. The options lie behind the header, the rest of them, if a reassembled header was cut there, at option2. */
err_t lwip_port_segment_seen(struct tcp_pcb *pcb, struct tcp_hdr *header, u16_t option_bytes, u16_t option1_bytes,
                             u8_t *option2);
#define LWIP_HOOK_TCP_INPACKET_PCB(pcb, header, option_bytes, option1_bytes, option2, p) \
    lwip_port_segment_seen(pcb, header, option_bytes, option1_bytes, option2)

/* A segment is about to leave, its options written up to `options`; returns that. */
u32_t *lwip_port_segment_leaves(const struct tcp_pcb *pcb, struct tcp_hdr *header, u32_t *options);
#define LWIP_HOOK_TCP_OUT_ADD_TCPOPTS(p, header, pcb, options) lwip_port_segment_leaves(pcb, header, options)

/* The next hop towards a destination outside the interface's network; NULL: none. */
const ip4_addr_t *lwip_port_next_hop(struct netif *netif, const ip4_addr_t *destination);
#define LWIP_HOOK_ETHARP_GET_GW lwip_port_next_hop
