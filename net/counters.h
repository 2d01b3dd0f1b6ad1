/* Everything the stack counts: a list a module. Drops are counted by reason, each where it happens. A member's name is
 * the counter's path with `_` for the dot: `ipv4_rx_drop_bad_checksum`. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/counters.h"

#define ETHERNET_COUNTERS(X)                                                                                           \
    X(COUNT, rx_frames), X(DROP_FRAME, rx_drop_short), X(DROP_FRAME, rx_drop_not_ours), X(DROP_FRAME, rx_drop_type),   \
        X(DROP_FRAME, rx_drop_vlan), X(DROP_FRAME, rx_drop_group), X(COUNT, tx_frames), X(COUNT, tx_no_buffer),        \
        X(COUNT, tx_ring_full)

#define ARP_COUNTERS(X)                                                                                                \
    X(COUNT, rx_requests), X(COUNT, rx_replies), X(DROP_FRAME, rx_drop_malformed), X(DROP_FRAME, rx_drop_unasked),     \
        X(DROP_FRAME, rx_drop_own_address), X(COUNT, tx_requests), X(COUNT, tx_replies), X(DROP, tx_drop_held_full),   \
        X(DROP, tx_drop_unanswered), X(COUNT, table_full), X(COUNT, address_changed), X(COUNT, address_doubted)

#define IPV4_COUNTERS(X)                                                                                               \
    X(COUNT, rx_datagrams), X(DROP_FRAME, rx_drop_short), X(DROP_FRAME, rx_drop_version),                              \
        X(DROP_FRAME, rx_drop_header_bytes), X(DROP_FRAME, rx_drop_total_bytes), X(DROP_FRAME, rx_drop_bad_checksum),  \
        X(DROP_FRAME, rx_drop_source), X(DROP_FRAME, rx_drop_not_ours), X(DROP_FRAME, rx_drop_bad_option),             \
        X(DROP_FRAME, rx_drop_source_route), X(DROP_FRAME, rx_drop_protocol), X(COUNT, rx_fragments),                  \
        X(COUNT, rx_reassembled), X(DROP_FRAME, rx_drop_fragment_bounds), X(DROP_FRAME, rx_drop_fragment_overlap),     \
        X(DROP, rx_drop_fragment_timeout), X(DROP, rx_drop_fragment_full), X(DROP_FRAME, rx_drop_fragment_rate),       \
        X(DROP_FRAME, rx_drop_fragment_mark), X(COUNT, tx_datagrams), X(DROP, tx_drop_no_route),                       \
        X(DROP, tx_drop_too_long)

#define ICMP_COUNTERS(X)                                                                                               \
    X(COUNT, rx_messages), X(DROP_FRAME, rx_drop_short), X(DROP_FRAME, rx_drop_bad_checksum),                          \
        X(DROP_FRAME, rx_drop_broadcast), X(DROP_FRAME, rx_drop_type), X(DROP_FRAME, rx_drop_bad_quote),               \
        X(COUNT, rx_errors), X(COUNT, tx_echo_replies), X(COUNT, tx_errors), X(DROP, tx_drop_rate)

#define IGMP_COUNTERS(X)                                                                                               \
    X(COUNT, rx_queries), X(COUNT, rx_reports), X(DROP_FRAME, rx_drop_length), X(DROP_FRAME, rx_drop_bad_checksum),    \
        X(DROP_FRAME, rx_drop_ttl), X(DROP_FRAME, rx_drop_group), X(DROP_FRAME, rx_drop_type), X(COUNT, tx_reports),   \
        X(COUNT, tx_leaves)

#define UDP_COUNTERS(X)                                                                                                \
    X(COUNT, rx_datagrams), X(DROP_FRAME, rx_drop_short), X(DROP_FRAME, rx_drop_length),                               \
        X(DROP_FRAME, rx_drop_bad_checksum), X(DROP_FRAME, rx_drop_no_port), X(COUNT, tx_datagrams), X(DROP, tx_drop)

#define TCP_COUNTERS(X)                                                                                                \
    X(COUNT, rx_segments), X(COUNT, rx_fast), X(DROP_FRAME, rx_drop_short), X(DROP_FRAME, rx_drop_offset),             \
        X(DROP_FRAME, rx_drop_bad_checksum), X(DROP_FRAME, rx_drop_broadcast), X(DROP_FRAME, rx_drop_port_zero),       \
        X(DROP_FRAME, rx_drop_no_connection), X(DROP_FRAME, rx_drop_flags), X(DROP_FRAME, rx_drop_paws),               \
        X(DROP_FRAME, rx_drop_out_of_window), X(DROP_FRAME, rx_drop_no_ack), X(DROP_FRAME, rx_drop_bad_ack),           \
        X(DROP_FRAME, rx_drop_after_close), X(DROP_FRAME, rx_drop_ranges_full), X(DROP_FRAME, rx_drop_syn_backlog),    \
        X(DROP_FRAME, rx_drop_syn_rate), X(DROP_FRAME, rx_drop_accept_full), X(DROP_FRAME, rx_drop_table_full),        \
        X(COUNT, rx_out_of_order), X(COUNT, rx_duplicate_bytes), X(COUNT, rx_resets), X(COUNT, rx_resets_ignored),     \
        X(COUNT, rx_acks_duplicate), X(COUNT, rx_sack_blocks_bad), X(COUNT, rx_dsack), X(COUNT, rx_zero_window),       \
        X(COUNT, rx_bad_options), X(COUNT, tx_segments), X(COUNT, tx_fast), X(COUNT, tx_resends),                      \
        X(COUNT, tx_resends_fast), X(COUNT, tx_tail_probes), X(COUNT, tx_window_probes), X(COUNT, tx_keepalives),      \
        X(COUNT, tx_acks), X(COUNT, tx_resets), X(COUNT, tx_challenges), X(COUNT, tx_challenges_withheld),             \
        X(COUNT, tx_refused), X(COUNT, rto_timeouts), X(COUNT, recoveries), X(COUNT, recoveries_undone),               \
        X(COUNT, connects), X(COUNT, accepts), X(COUNT, connects_failed), X(COUNT, resets_in_open),                    \
        X(COUNT, timed_out), X(COUNT, half_open_evicted), X(COUNT, half_open_expired), X(COUNT, time_wait_evicted),    \
        X(COUNT, time_wait_reused), X(COUNT, path_mtu_lowered), X(COUNT, icmp_ignored), X(COUNT, icmp_soft_errors),    \
        X(COUNT, rx_marked), X(COUNT, window_marked), X(COUNT, tx_cookies), X(COUNT, rx_cookies)

/* In the order of the members: the module, its list, its subject. */
#define NET_COUNTERS(X)                                                                                                \
    X(ethernet, ETHERNET_COUNTERS, "Ethernet frames"), X(arp, ARP_COUNTERS, "ARP"),                                    \
        X(ipv4, IPV4_COUNTERS, "IPv4 datagrams"), X(icmp, ICMP_COUNTERS, "ICMP"), X(igmp, IGMP_COUNTERS, "IGMP"),      \
        X(udp, UDP_COUNTERS, "UDP datagrams"), X(tcp, TCP_COUNTERS, "TCP")

#define NET_MEMBER_ethernet(kind, name) ethernet_##name
#define NET_MEMBER_arp(kind, name)      arp_##name
#define NET_MEMBER_ipv4(kind, name)     ipv4_##name
#define NET_MEMBER_icmp(kind, name)     icmp_##name
#define NET_MEMBER_igmp(kind, name)     igmp_##name
#define NET_MEMBER_udp(kind, name)      udp_##name
#define NET_MEMBER_tcp(kind, name)      tcp_##name
#define NET_MEMBERS(module, LIST, help) LIST(NET_MEMBER_##module)
struct net_counters {
    uint64_t NET_COUNTERS(NET_MEMBERS);
};

#define NET_GROUP(module, LIST, help) NET_GROUP_##module
enum { NET_COUNTERS(NET_GROUP), NET_GROUP_COUNT };

/* Returns the group of the module with that number. */
struct counter_group net_counter_group(const struct net_counters *counters, size_t module);
