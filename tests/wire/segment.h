/* A segment as a timeline writes it, to and from bytes: `P. 1:101(100) ack 1 win 65535 <nop, nop, ts 5 0>`.
 *
 * Sequence numbers are relative to the first number of each side, and the stack's timestamps to the first that it sent.
 * Payload is a function of its place in the stream, so that every byte is checked. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { WIRE_OPTION_COUNT_MAX = 40, WIRE_PACKET_BYTES_MAX = 2048 };
enum { WIRE_STACK_ADDRESS = 0x0a000002, WIRE_PEER_ADDRESS = 0x0a000001 };

enum wire_direction { WIRE_TO_STACK, WIRE_FROM_STACK };

struct wire_option {
    uint8_t kind;
    uint8_t raw_bytes; /* the length of a `raw` option, which has no name here */
    uint8_t raw[40];
    uint32_t values[8]; /* MSS; shift; timestamp and echo; edges of SACK blocks */
    uint32_t value_count;
    bool any; /* `ts * 5`: the first value may be anything */
};

struct wire_segment {
    bool icmp; /* an ICMP message about the segment; `icmp_*` hold */
    uint8_t icmp_type, icmp_code;
    uint16_t icmp_mtu;
    uint8_t flags;
    uint32_t seq, bytes, ack;
    int64_t window; /* -1: not checked */
    uint32_t urgent;
    uint8_t codepoint; /* ECN's, in the IP header: 2 is ECT(0), 3 is CE */
    uint16_t peer_port, port;
    struct wire_option options[WIRE_OPTION_COUNT_MAX];
    uint32_t option_count;
    bool options_said, options_any;

    /* Only of segments to the stack. */
    int fill;         /* -1: the stream's bytes */
    int header_words; /* 0: as many as the options need */
    uint8_t reserved;
    bool corrupt, queued;
    uint32_t source, destination;
};

/* The bases of a connection's relative numbers. The peer's port names the connection. */
struct wire_base {
    uint16_t peer_port, port;
    bool stack_known, timestamp_known;
    uint32_t stack_isn, peer_isn, timestamp;
    int cuttable_id; /* the ID of the last packet without DF; -1: none came */
};

/* Returns byte `offset` of the stream. The SYN is 0, so payload begins at 1. */
uint8_t wire_stream_byte(enum wire_direction direction, uint32_t offset);

/* Writes the segment as an IPv4 packet and returns its length. */
size_t wire_segment_write(const struct wire_segment *segment, const struct wire_base *base, uint8_t *packet);

/* Reads a packet of the stack, and completes `base`. Returns NULL, or the packet's fault. */
const char *wire_segment_read(struct wire_segment *segment, struct wire_base *base, const uint8_t *packet,
                              size_t bytes);

/* Returns the peer's port of a packet of the stack, or 0. */
uint16_t wire_segment_peer_port(const uint8_t *packet, size_t bytes);

/* Writes the text form; returns `text`. */
char *wire_segment_print(const struct wire_segment *segment, char *text, size_t text_bytes);

/* Compares two segments. Returns NULL if they agree, else the field that differs, with both values as text. */
const char *wire_segment_compare(const struct wire_segment *expected, const struct wire_segment *actual,
                                 char values[2][200]);
