/* Everything the stack counts. A name is a path in the statistics, `ipv4.rx_drop_bad_checksum`; one list makes both
 * the member and its name. Drops are counted by reason, each where it happens. */
#pragma once

#include <stdint.h>

/* Lists of macros, which no formatter knows. */
/* clang-format off */
#define NET_COUNTERS_ETHERNET(X) \
    X(ethernet, rx_frames) X(ethernet, rx_drop_short) X(ethernet, rx_drop_not_ours) X(ethernet, rx_drop_type) \
    X(ethernet, rx_drop_vlan) X(ethernet, rx_drop_group) X(ethernet, tx_frames) X(ethernet, tx_no_buffer) \
    X(ethernet, tx_ring_full)

#define NET_COUNTERS_ARP(X) \
    X(arp, rx_requests) X(arp, rx_replies) X(arp, rx_drop_malformed) X(arp, rx_drop_unasked) \
    X(arp, rx_drop_own_address) X(arp, tx_requests) X(arp, tx_replies) X(arp, tx_drop_held_full) \
    X(arp, tx_drop_unanswered) X(arp, table_full) X(arp, address_changed) \
    X(arp, address_doubted)

#define NET_COUNTERS_IPV4(X) \
    X(ipv4, rx_datagrams) X(ipv4, rx_drop_short) X(ipv4, rx_drop_version) X(ipv4, rx_drop_header_bytes) \
    X(ipv4, rx_drop_total_bytes) X(ipv4, rx_drop_bad_checksum) X(ipv4, rx_drop_source) \
    X(ipv4, rx_drop_not_ours) X(ipv4, rx_drop_bad_option) X(ipv4, rx_drop_source_route) \
    X(ipv4, rx_drop_protocol) X(ipv4, rx_fragments) X(ipv4, rx_reassembled) X(ipv4, rx_drop_fragment_bounds) \
    X(ipv4, rx_drop_fragment_overlap) X(ipv4, rx_drop_fragment_timeout) X(ipv4, rx_drop_fragment_full) \
    X(ipv4, rx_drop_fragment_rate) X(ipv4, rx_drop_fragment_mark) X(ipv4, tx_datagrams) \
    X(ipv4, tx_drop_no_route) X(ipv4, tx_drop_too_long)

#define NET_COUNTERS_ICMP(X) \
    X(icmp, rx_messages) X(icmp, rx_drop_short) X(icmp, rx_drop_bad_checksum) X(icmp, rx_drop_broadcast) \
    X(icmp, rx_drop_type) X(icmp, rx_drop_bad_quote) X(icmp, rx_errors) X(icmp, tx_echo_replies) \
    X(icmp, tx_errors) X(icmp, tx_drop_rate)

#define NET_COUNTERS_IGMP(X) \
    X(igmp, rx_queries) X(igmp, rx_reports) X(igmp, rx_drop_length) X(igmp, rx_drop_bad_checksum) \
    X(igmp, rx_drop_ttl) X(igmp, rx_drop_group) X(igmp, rx_drop_type) \
    X(igmp, tx_reports) X(igmp, tx_leaves)

#define NET_COUNTERS_UDP(X) \
    X(udp, rx_datagrams) X(udp, rx_drop_short) X(udp, rx_drop_length) X(udp, rx_drop_bad_checksum) \
    X(udp, rx_drop_no_port) X(udp, tx_datagrams) X(udp, tx_drop)

#define NET_COUNTERS_TCP(X) \
    X(tcp, rx_segments) X(tcp, rx_fast) X(tcp, rx_drop_short) X(tcp, rx_drop_offset) X(tcp, rx_drop_bad_checksum) \
    X(tcp, rx_drop_broadcast) X(tcp, rx_drop_port_zero) X(tcp, rx_drop_no_connection) X(tcp, rx_drop_flags) \
    X(tcp, rx_drop_paws) X(tcp, rx_drop_out_of_window) X(tcp, rx_drop_no_ack) X(tcp, rx_drop_bad_ack) \
    X(tcp, rx_drop_after_close) X(tcp, rx_drop_ranges_full) X(tcp, rx_drop_syn_backlog) X(tcp, rx_drop_syn_rate) \
    X(tcp, rx_drop_accept_full) X(tcp, rx_drop_table_full) X(tcp, rx_out_of_order) \
    X(tcp, rx_duplicate_bytes) X(tcp, rx_resets) \
    X(tcp, rx_resets_ignored) X(tcp, rx_acks_duplicate) X(tcp, rx_sack_blocks_bad) X(tcp, rx_dsack) \
    X(tcp, rx_zero_window) X(tcp, rx_bad_options) \
    X(tcp, tx_segments) X(tcp, tx_fast) X(tcp, tx_resends) X(tcp, tx_resends_fast) X(tcp, tx_tail_probes) \
    X(tcp, tx_window_probes) X(tcp, tx_keepalives) X(tcp, tx_acks) X(tcp, tx_resets) X(tcp, tx_challenges) \
    X(tcp, tx_challenges_withheld) X(tcp, tx_refused) X(tcp, rto_timeouts) X(tcp, recoveries) \
    X(tcp, recoveries_undone) X(tcp, connects) X(tcp, accepts) X(tcp, connects_failed) X(tcp, resets_in_open) \
    X(tcp, timed_out) X(tcp, half_open_evicted) X(tcp, half_open_expired) X(tcp, time_wait_evicted) \
    X(tcp, time_wait_reused) X(tcp, path_mtu_lowered) X(tcp, icmp_ignored) X(tcp, icmp_soft_errors) \
    X(tcp, rx_marked) X(tcp, window_marked) X(tcp, tx_cookies) X(tcp, rx_cookies)

#define NET_COUNTERS(X) \
    NET_COUNTERS_ETHERNET(X) NET_COUNTERS_ARP(X) NET_COUNTERS_IPV4(X) NET_COUNTERS_ICMP(X) NET_COUNTERS_IGMP(X) \
    NET_COUNTERS_UDP(X) NET_COUNTERS_TCP(X)
/* clang-format on */

struct net_counters {
#define NET_COUNTER_MEMBER(module, name) uint64_t module##_##name;
    NET_COUNTERS(NET_COUNTER_MEMBER)
#undef NET_COUNTER_MEMBER
};
