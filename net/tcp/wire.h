/* The TCP header and its options. RFC 9293 §3.1, §3.2; RFC 7323 §2.2, §3.2; RFC 2018 §2, §3. */
#pragma once

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "net/ip/ethernet_wire.h"
#include "net/ip/ipv4_wire.h"

enum {
    TCP_HEADER_BYTES_MIN = 20,
    TCP_HEADER_BYTES_MAX = 60,
    TCP_OPTION_BYTES_MAX = TCP_HEADER_BYTES_MAX - TCP_HEADER_BYTES_MIN,

    TCP_FIN = 0x01,
    TCP_SYN = 0x02,
    TCP_RST = 0x04,
    TCP_PSH = 0x08,
    TCP_ACK = 0x10,
    TCP_URG = 0x20,
    TCP_ECE = 0x40, /* RFC 3168 §6.1 */
    TCP_CWR = 0x80,

    TCP_OPTION_END = 0,
    TCP_OPTION_NOP = 1,
    TCP_OPTION_MSS = 2,
    TCP_OPTION_MSS_BYTES = 4,
    TCP_OPTION_WINDOW_SCALE = 3,
    TCP_OPTION_WINDOW_SCALE_BYTES = 3,
    TCP_OPTION_SACK_PERMITTED = 4,
    TCP_OPTION_SACK_PERMITTED_BYTES = 2,
    TCP_OPTION_SACK = 5,
    TCP_OPTION_SACK_BLOCK_BYTES = 8,
    TCP_OPTION_TIMESTAMPS = 8,
    TCP_OPTION_TIMESTAMPS_BYTES = 10,
    TCP_TIMESTAMPS_ALIGNED_BYTES = 12, /* RFC 7323 appendix A: NOP NOP before it */

    TCP_SACK_BLOCK_COUNT_MAX = 4,
    TCP_WINDOW_SCALE_MAX = 14, /* RFC 7323 §2.3 */
    TCP_MSS_DEFAULT = 536,     /* RFC 9293 §3.7.1, MUST-15: when the peer names none */
};

struct tcp_wire {
    uint16_t source_port;
    uint16_t destination_port;
    uint32_t seq;
    uint32_t ack;
    uint8_t offset; /* high four bits: header length in words; low four: sent 0 */
    uint8_t flags;
    uint16_t window;
    uint16_t checksum;
    uint16_t urgent;
} __attribute__((packed));
static_assert(sizeof(struct tcp_wire) == TCP_HEADER_BYTES_MIN, "TCP header");
static_assert(offsetof(struct tcp_wire, checksum) == 16, "TCP header");

/* The timestamps option as it always stands in our segments, and in Linux's: one comparison recognises it. */
enum { TCP_TIMESTAMPS_ALIGNED_WORD = 0x0101080a };
struct tcp_timestamps_wire {
    uint32_t nop_nop_kind_bytes;
    uint32_t value;
    uint32_t echo;
} __attribute__((packed));
static_assert(sizeof(struct tcp_timestamps_wire) == TCP_TIMESTAMPS_ALIGNED_BYTES, "timestamps option");

/* Everything before the payload of a data segment. Without timestamps the last member is payload. */
struct tcp_head_wire {
    struct ethernet_wire ethernet;
    struct ipv4_wire ipv4;
    struct tcp_wire tcp;
    struct tcp_timestamps_wire timestamps;
} __attribute__((packed));
static_assert(sizeof(struct tcp_head_wire) == 66, "head of a segment");
static_assert(offsetof(struct tcp_head_wire, timestamps) == 54, "head of a segment");
