/* The other end of the benchmark's wire: a TCP peer of single segments that answers as Linux would, at the gateway's
 * hardware address. It accepts every connection, acknowledges what comes, and sends what it is told to; nothing is
 * ever lost here, so it sends nothing twice. Knows frames only. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum {
    BENCH_PEER_COUNT = 4,               /* connections of one run */
    BENCH_PEER_ADDRESS = 0x0a000202,    /* 10.0.2.2, behind the gateway */
    BENCH_ADDRESS = 0x0a00020f,         /* 10.0.2.15, ours */
    BENCH_GATEWAY = 0x0a000201,
};
extern const uint8_t bench_peer_mac[6];

struct bench_peer {
    uint16_t port, peer_port;           /* its own, and the stack's; 0: unused */
    bool timestamps;
    uint32_t seq, ack;                  /* the next it sends, and the next it expects */
    uint32_t timestamp_echo;
    uint8_t mac[6];                     /* the stack's */
    uint64_t bytes;                     /* of payload received */
};
extern struct bench_peer bench_peers[BENCH_PEER_COUNT];

/* Takes a frame of the stack. Returns the connection it belongs to (NULL: none), and in *reply_bytes whether `reply`
 * (at least 128 bytes) now holds the segment that answers it: SYN,ACK for a SYN, an ACK for payload. */
struct bench_peer *bench_peer_take(const uint8_t *frame, uint32_t bytes, uint32_t now_ms, uint8_t *reply,
                                   uint32_t *reply_bytes);

/* The connection to one of its ports; NULL: there is none. */
struct bench_peer *bench_peer_of(uint16_t port);

/* A segment with `bytes` of payload, its checksums right, into `frame`; its length. */
uint32_t bench_peer_segment(struct bench_peer *peer, uint8_t *frame, const void *payload, uint32_t bytes,
                            uint32_t now_ms);
