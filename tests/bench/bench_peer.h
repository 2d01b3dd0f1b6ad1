/* The other end of the benchmark's wire: a TCP peer of single segments that answers as Linux would, at the gateway's
 * hardware address. The peer accepts every connection, acknowledges all payload, and sends on request. No frame is lost
 * here, so the peer sends nothing twice. Knows frames only. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum {
    BENCH_PEER_COUNT = 4,            /* connections of one run */
    BENCH_PEER_ADDRESS = 0x0a000202, /* 10.0.2.2, behind the gateway */
    BENCH_ADDRESS = 0x0a00020f,      /* 10.0.2.15, ours */
    BENCH_GATEWAY = 0x0a000201,
};
extern const uint8_t bench_peer_mac[6];

struct bench_peer {
    uint16_t port, peer_port; /* the peer's, and the stack's; 0: unused */
    bool timestamps;
    uint32_t seq, ack; /* the numbers that the peer sends next, and expects next */
    uint32_t timestamp_echo;
    uint8_t mac[6]; /* the stack's */
    uint64_t bytes; /* payload received */
};
extern struct bench_peer bench_peers[BENCH_PEER_COUNT];

/* Takes a frame of the stack. Returns the frame's connection (NULL: none). Writes the answer to `reply` (at least 128
 * bytes): SYN,ACK for a SYN, an ACK for payload. *reply_bytes is 0 without an answer. */
struct bench_peer *bench_peer_take(const uint8_t *frame, uint32_t bytes, uint32_t now_ms, uint8_t *reply,
                                   uint32_t *reply_bytes);

/* Returns the connection to one of the peer's ports; NULL: there is none. */
struct bench_peer *bench_peer_of(uint16_t port);

/* Writes a segment with `bytes` of payload and right checksums to `frame`. Returns its length. */
uint32_t bench_peer_segment(struct bench_peer *peer, uint8_t *frame, const void *payload, uint32_t bytes,
                            uint32_t now_ms);
