/* lwIP 2.1.3's settings for a client with a few TCP connections on one Ethernet device, polled from one loop. Each size
 * is a sum with a reason per term. Settings that are not named here keep lwIP's default (lwip/opt.h). */
#pragma once

/* ---- One loop, no system ----
 * Callback interface only. lwIP's own timer list is off: transport_idle calls the few periodic functions when they
 * are due, by the time that its caller passes. */
#define NO_SYS                        1
#define SYS_LIGHTWEIGHT_PROT          0
#define LWIP_TIMERS                   0
#define LWIP_SOCKET                   0
#define LWIP_NETCONN                  0
#define LWIP_SINGLE_NETIF             1
#define LWIP_HOOK_FILENAME            "net/lwip/hooks.h"

/* ---- Protocols ---- */
#define LWIP_IPV6                     0
#define LWIP_RAW                      0
#define LWIP_DHCP                     0 /* net/ip/dhcp.h instead: lwIP's client knows no /32 leases, no option 121 */
#define LWIP_DNS                      0
#define LWIP_IGMP                     1 /* version 2 alone */
#define LWIP_MULTICAST_TX_OPTIONS     1 /* IGMP wants them */
#define LWIP_ICMP                     1
#define LWIP_BROADCAST_PING           0
#define LWIP_UDP                      1
#define LWIP_TCP                      1
#define IP_FORWARD                    0
#define IP_DEFAULT_TTL                64 /* RFC 1700's value, and what hosts use */
#define LWIP_NETIF_LINK_CALLBACK      0
/* RFC 2131 §4.1: the DHCP client takes datagrams before there is an address. The port is in network order. */
#define LWIP_IP_ACCEPT_UDP_PORT(port) ((port) == PP_HTONS(68))

/* ---- TCP ---- */
#define TCP_MSS                       1460 /* 1500 - 40; lowered per connection by the device's or the lease's MTU */
#define TCP_CALCULATE_EFF_SEND_MSS    1
/* 44 segments. An input stream sends some KiB a second, and one segment is consumed before the next is taken, so the
 * window covers the bytes in flight alone. 64240 bytes in a round trip of 200 us are 320 MB/s. The window stays within
 * 16 bits: window scaling is left out, which each SYN would pay for. */
#define TCP_WND                       (44 * TCP_MSS)
#define LWIP_WND_SCALE                0
/* The bytes that one connection may have in flight: TRANSPORT_MESSAGE_BYTES_MAX times 32 areas, within 16 bits. Each
 * area is at most two pbufs, the header's and the message's, and lwIP's check wants two per MSS. */
#define TCP_SND_BUF                   (44 * TCP_MSS)
#define TCP_SND_QUEUELEN              96
#define TCP_OVERSIZE                  0 /* messages are sent in place: no room is kept for appending copies */
#define LWIP_TCP_SACK_OUT             1
#define LWIP_TCP_TIMESTAMPS           0 /* would cost 12 bytes and a parse a segment */
#define TCP_QUEUE_OOSEQ               1
/* Per connection, so that one cannot hold all received frames (below). With the pieces of one datagram they fit the
 * window: lwIP does not cut the first segment that comes out of order to the window, and asserts that all fit. */
#define TCP_OOSEQ_MAX_PBUFS           30
#define SO_REUSE                      1
#define TCP_LISTEN_BACKLOG            1
#define TCP_DEFAULT_LISTEN_BACKLOG    8 /* half-open connections of a listener: the bound under a SYN flood */

/* lwIP counts in ticks of TCP_SLOW_INTERVAL, which is twice TCP_TMR_INTERVAL: 10 ms here instead of 500. lwIP's
 * arithmetic allows short ticks. rto, sa and sv are s16 ticks, 327 s at most; the estimator starts at 300 ticks.
 * tcp_ticks is u32, and only its differences are used. The persist table ends at 120 ticks, so probes come 30 ms to 1.2
 * s apart, not 1.5 to 60 seconds. A walk over 16 connections each 10 ms costs next to nothing.
 *
 * lwIP has no minimum of the timeout. With round trips under a tick the estimate sinks to 3 ticks, below a peer's
 * delayed ACK of 40 ms. net/lwip/timers.c adds the minimum rto_min_us (200 ms by default), and starts a SYN at RFC
 * 6298's 1 s. */
#define TCP_TMR_INTERVAL              5
/* A segment is sent again at these seconds: 0.2, 0.6, 1.4, 3, 6.2, 12.6, 25.4, 51, 76.6.
 * At 102 s lwIP gives up: R2 of 100 s (RFC 9293 §3.8.3). */
#define TCP_MAXRTX                    10
/* SYNs are sent at 0, 1, 3, 7 and 15 s; then lwIP gives up. RFC 9293 §3.8.3 asks for three minutes. A player whose
 * server has just restarted tries again sooner. */
#define TCP_SYNMAXRTX                 4
#define TCP_MSL                       30000 /* TIME-WAIT lasts 60 s, as in Linux */

/* ---- Memory: static, nothing grows ----
 * Connections: TRANSPORT_CONNECTION_COUNT_MAX, checked against it in net/lwip/transport.c. */
#define LWIP_PORT_CONNECTIONS         16
#define LWIP_PORT_MESSAGES            32 /* areas of a connection, sent or being written */
#define MEM_ALIGNMENT                 8
#define MEMP_NUM_TCP_PCB                                                                                               \
    (LWIP_PORT_CONNECTIONS                                  /* open */                                                 \
     + MEMP_NUM_TCP_PCB_LISTEN * TCP_DEFAULT_LISTEN_BACKLOG /* half-open */                                            \
     + LWIP_PORT_CONNECTIONS /* TIME-WAIT, recycled */)
#define MEMP_NUM_TCP_PCB_LISTEN  4
#define MEMP_NUM_UDP_PCB         (4 /* TRANSPORT_UDP_PORT_COUNT_MAX */ + 1 /* DHCP */ + 1 /* unbound senders */)
#define MEMP_NUM_IGMP_GROUP      (8 /* TRANSPORT_GROUP_COUNT_MAX */ + 1 /* that of all systems */)
/* Received frames are pbufs in place, up to NETDEV_RX_BORROWED_MAX less the frame in hand. Further frames are copied
 * into the pool, so that the device never runs dry. */
#define PBUF_POOL_SIZE           64
#define PBUF_POOL_BUFSIZE        1520 /* a frame of 1514 bytes, in multiples of MEM_ALIGNMENT */
#define LWIP_SUPPORT_CUSTOM_PBUF 1
#define MEMP_NUM_TCP_SEG                                                                                               \
    (LWIP_PORT_CONNECTIONS * LWIP_PORT_MESSAGES /* one message, one segment */                                         \
     + 63 + PBUF_POOL_SIZE                      /* out of order: one per received frame */                             \
     + MEMP_NUM_TCP_PCB /* SYN or FIN */)
#define MEMP_NUM_PBUF                                                                                                  \
    (LWIP_PORT_CONNECTIONS * LWIP_PORT_MESSAGES /* payloads, by reference */ + 16 /* IP fragments sent */)
#define MEM_SIZE                                                                                                       \
    (LWIP_PORT_CONNECTIONS * LWIP_PORT_MESSAGES * 128 /* header pbufs of messages: 24 + 58 + the heap's 16 */          \
     + MEMP_NUM_TCP_PCB * 128                         /* SYN, FIN, ACK, RST */                                         \
     + 8 * 1600                                       /* datagrams and echo replies on their way out */                \
     + 16 * 96 /* ARP, and slack of the first fit */)
#define ARP_TABLE_SIZE               32
/* The packets that wait for an ARP answer: the SYNs of all input streams and of submit, sent at once to one gateway. In
 * a queue of one, the last SYN would replace the others, which come again only after a second. */
#define ARP_QUEUEING                 1
#define ARP_QUEUE_LEN                12
#define MEMP_NUM_ARP_QUEUE           16
#define ARP_MAXAGE                   60 /* s; asked after 30, by broadcast after 45 */
#define IP_REASSEMBLY                1
#define IP_REASS_MAX_PBUFS           12 /* fragments held, of all datagrams: a ping of 16 KiB */
#define MEMP_NUM_REASSDATA           4
#define IP_FRAG                      1 /* replies to such a ping */

/* ---- Checksums: per device and, on receive, per frame (net/lwip/interface.c) ---- */
#define LWIP_CHECKSUM_CTRL_PER_NETIF 1
#define LWIP_CHECKSUM_ON_COPY        0

/* ---- Counters ---- */
#define LWIP_STATS                   1
#define LWIP_STATS_LARGE             1
#define LWIP_STATS_DISPLAY           0
