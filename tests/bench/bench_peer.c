#include "tests/bench/bench_peer.h"

#include "tests/lib/packet.h"

const uint8_t bench_peer_mac[6] = { 0x52, 0x54, 0x00, 0x00, 0x02, 0x01 };
struct bench_peer bench_peers[BENCH_PEER_COUNT];

enum { ISS = 0x10203040, WINDOW = 65000, OFFSET_TCP = sizeof(struct ethernet_wire) + sizeof(struct ipv4_wire) };

struct bench_peer *bench_peer_of(uint16_t port)
{
    for (uint32_t i = 0; i < BENCH_PEER_COUNT; i++)
        if (bench_peers[i].peer_port != 0 && bench_peers[i].port == port)
            return &bench_peers[i];
    return NULL;
}

static uint32_t segment(struct bench_peer *peer, uint8_t *frame, uint8_t flags, const void *options,
                        uint32_t option_bytes, const void *payload, uint32_t bytes)
{
    uint8_t *packet = frame + sizeof(struct ethernet_wire);
    packet_ethernet(frame, peer->mac, bench_peer_mac, ETHERNET_TYPE_IPV4);
    uint32_t packet_bytes = packet_tcp(packet, &(struct packet_tcp){ .source = BENCH_PEER_ADDRESS,
                                                                     .destination = BENCH_ADDRESS,
                                                                     .source_port = peer->port,
                                                                     .destination_port = peer->peer_port,
                                                                     .seq = peer->seq,
                                                                     .ack = peer->ack,
                                                                     .flags = flags,
                                                                     .window = WINDOW,
                                                                     .options = options,
                                                                     .option_bytes = option_bytes,
                                                                     .payload = payload,
                                                                     .bytes = bytes });
    peer->seq += bytes + ((flags & TCP_SYN) != 0);
    return (uint32_t)sizeof(struct ethernet_wire) + packet_bytes;
}

/* Writes the timestamps option as Linux does: NOP NOP timestamps, in every segment once agreed. */
static uint32_t timestamps(const struct bench_peer *peer, uint8_t *at, uint32_t now_ms)
{
    if (!peer->timestamps)
        return 0;
    store_be32(at, TCP_TIMESTAMPS_ALIGNED_WORD);
    store_be32(at + 4, now_ms + 12345);
    store_be32(at + 8, peer->timestamp_echo);
    return TCP_TIMESTAMPS_ALIGNED_BYTES;
}

uint32_t bench_peer_segment(struct bench_peer *peer, uint8_t *frame, const void *payload, uint32_t bytes,
                            uint32_t now_ms)
{
    uint8_t options[TCP_TIMESTAMPS_ALIGNED_BYTES];
    uint32_t option_bytes = timestamps(peer, options, now_ms);
    return segment(peer, frame, bytes != 0 ? TCP_ACK | TCP_PSH : TCP_ACK, options, option_bytes, payload, bytes);
}

static uint32_t accept_syn(struct bench_peer *peer, bool offers_timestamps, uint8_t *reply, uint32_t now_ms)
{
    uint8_t options[40] = { TCP_OPTION_MSS, TCP_OPTION_MSS_BYTES, 0x05, 0xb4 }; /* 1460 */
    uint32_t option_bytes = TCP_OPTION_MSS_BYTES;
    peer->timestamps = offers_timestamps;
    peer->seq = ISS;
    if (offers_timestamps) {
        option_bytes += timestamps(peer, options + option_bytes, now_ms);
        options[4] = TCP_OPTION_SACK_PERMITTED;
        options[5] = TCP_OPTION_SACK_PERMITTED_BYTES;
    } else {
        static const uint8_t sack_permitted[] = { TCP_OPTION_NOP, TCP_OPTION_NOP, TCP_OPTION_SACK_PERMITTED,
                                                  TCP_OPTION_SACK_PERMITTED_BYTES };
        memcpy(options + option_bytes, sack_permitted, sizeof sack_permitted);
        option_bytes += sizeof sack_permitted;
    }
    return segment(peer, reply, TCP_SYN | TCP_ACK, options, option_bytes, NULL, 0);
}

static struct bench_peer *find(uint16_t port, uint16_t peer_port, bool syn)
{
    struct bench_peer *unused = NULL;
    for (uint32_t i = 0; i < BENCH_PEER_COUNT; i++) {
        if (bench_peers[i].peer_port == peer_port && bench_peers[i].port == port)
            return &bench_peers[i];
        if (unused == NULL && bench_peers[i].peer_port == 0)
            unused = &bench_peers[i];
    }
    if (!syn || unused == NULL)
        return NULL;
    *unused = (struct bench_peer){ .port = port, .peer_port = peer_port };
    return unused;
}

struct bench_peer *bench_peer_take(const uint8_t *frame, uint32_t bytes, uint32_t now_ms, uint8_t *reply,
                                   uint32_t *reply_bytes)
{
    const struct ethernet_wire *ethernet = (const struct ethernet_wire *)frame;
    const struct ipv4_wire *ipv4 = (const struct ipv4_wire *)(ethernet + 1);
    const struct tcp_wire *tcp = (const struct tcp_wire *)(ipv4 + 1);
    *reply_bytes = 0;
    if (bytes < OFFSET_TCP + sizeof *tcp || load_be16(&ethernet->type) != ETHERNET_TYPE_IPV4
        || ipv4->protocol != IPV4_PROTOCOL_TCP)
        return NULL;
    bool syn = (tcp->flags & TCP_SYN) != 0;
    struct bench_peer *peer = find(load_be16(&tcp->destination_port), load_be16(&tcp->source_port), syn);
    if (peer == NULL)
        return NULL;
    memcpy(peer->mac, ethernet->source, 6);
    uint32_t header_bytes = (uint32_t)(tcp->offset >> 4) * 4;
    uint32_t payload_bytes = load_be16(&ipv4->total_bytes) - (uint32_t)sizeof *ipv4 - header_bytes;
    const uint8_t *options = (const uint8_t *)(tcp + 1);
    bool stamped = header_bytes >= 32 && load_be32(options) == TCP_TIMESTAMPS_ALIGNED_WORD;
    bool offers = syn && header_bytes >= 36 && load_be32(options + 4) == 0x0402080a; /* SACK permitted, timestamps */
    if (stamped)
        peer->timestamp_echo = load_be32(options + 4);
    if (offers)
        peer->timestamp_echo = load_be32(options + 8);
    peer->ack = load_be32(&tcp->seq) + payload_bytes + (syn ? 1 : 0);
    peer->bytes += payload_bytes;
    if (syn)
        *reply_bytes = accept_syn(peer, offers, reply, now_ms);
    else if (payload_bytes != 0)
        *reply_bytes = bench_peer_segment(peer, reply, NULL, 0, now_ms);
    return peer;
}
