#include "tests/gve/offload.h"

#include <string.h>

#include "base/bytes.h"
#include "net/ip/checksum.h"

enum { IPV4_BYTES = 20, IPV6_BYTES = 40, TCP_BYTES = 20, TCP_FIN_PSH = 0x09, HEADER_BYTES_MAX = 200 };

struct offload_headers offload_parse(const uint8_t *frame, uint32_t bytes)
{
    struct offload_headers headers = { 0 };
    const uint8_t *ip = frame + ETHERNET_BYTES;
    uint16_t type = bytes >= ETHERNET_BYTES ? load_be16(frame + 12) : 0;
    if (type == 0x0800 && bytes >= ETHERNET_BYTES + IPV4_BYTES) {
        headers.ipv4 = true;
        headers.fragment = (load_be16(ip + 6) & 0x3fff) != 0;
        headers.protocol = ip[9];
        headers.l4 = ETHERNET_BYTES + 4u * (ip[0] & 0xf);
    } else if (type == 0x86dd && bytes >= ETHERNET_BYTES + IPV6_BYTES) {
        headers.ipv6 = true;
        headers.protocol = ip[6];
        headers.l4 = ETHERNET_BYTES + IPV6_BYTES;
    }
    return headers;
}

/* Returns the sum of the pseudo-header. */
static uint32_t pseudo_sum(const uint8_t *frame, struct offload_headers headers, uint32_t l4_bytes)
{
    const uint8_t *ip = frame + ETHERNET_BYTES;
    uint8_t length[4];
    store_be32(length, l4_bytes + headers.protocol);
    uint32_t sum = checksum_sum(0, length, sizeof length);
    return headers.ipv4 ? checksum_sum(sum, ip + 12, 8) : checksum_sum(sum, ip + 8, 32);
}

bool offload_complete(uint8_t *frame, uint32_t bytes, uint32_t l4, uint32_t field)
{
    if (l4 < ETHERNET_BYTES || l4 + field + 2 > bytes)
        return false;
    uint16_t sum = checksum_finish(checksum_sum(0, frame + l4, bytes - l4));
    store_be16(frame + l4 + field, sum ? sum : 0xffff);
    return true;
}

bool offload_is_right(const uint8_t *frame, uint32_t bytes, struct offload_headers headers)
{
    const uint8_t *ip = frame + ETHERNET_BYTES;
    uint32_t end = ETHERNET_BYTES + (headers.ipv4 ? load_be16(ip + 2) : IPV6_BYTES + load_be16(ip + 4));
    if (end > bytes || headers.l4 > end)
        return false;
    uint32_t l4_bytes = end - headers.l4; /* A short frame is padded after its datagram. */
    return checksum_finish(checksum_sum(pseudo_sum(frame, headers, l4_bytes), frame + headers.l4, l4_bytes)) == 0;
}

bool offload_segment(const uint8_t *packet, uint32_t bytes, uint32_t header_bytes, uint32_t mss,
                     void (*send)(void *context, const uint8_t *frame, uint32_t bytes), void *context)
{
    struct offload_headers headers = offload_parse(packet, bytes);
    if (mss == 0 || headers.protocol != IP_PROTOCOL_TCP || header_bytes < headers.l4 + TCP_BYTES
        || header_bytes > HEADER_BYTES_MAX || header_bytes >= bytes)
        return false;
    for (uint32_t at = header_bytes; at < bytes; at += mss) {
        uint8_t frame[HEADER_BYTES_MAX + UINT16_MAX];
        uint32_t part = min_u32(mss, bytes - at);
        uint32_t frame_bytes = header_bytes + part;
        uint8_t *ip = frame + ETHERNET_BYTES;
        uint8_t *tcp = frame + headers.l4;
        memcpy(frame, packet, header_bytes);
        memcpy(frame + header_bytes, packet + at, part);
        if (headers.ipv4) {
            store_be16(ip + 2, (uint16_t)(frame_bytes - ETHERNET_BYTES));
            store_be16(ip + 4, (uint16_t)(load_be16(ip + 4) + (at - header_bytes) / mss));
            store_be16(ip + 10, 0);
            store_be16(ip + 10, checksum_finish(checksum_sum(0, ip, headers.l4 - ETHERNET_BYTES)));
        } else {
            store_be16(ip + 4, (uint16_t)(frame_bytes - ETHERNET_BYTES - IPV6_BYTES));
        }
        store_be32(tcp + 4, load_be32(tcp + 4) + (at - header_bytes));
        if (at + part < bytes)
            tcp[13] &= (uint8_t)~TCP_FIN_PSH;
        store_be16(tcp + 16, 0);
        uint32_t l4_bytes = frame_bytes - headers.l4;
        store_be16(tcp + 16, checksum_finish(checksum_sum(pseudo_sum(frame, headers, l4_bytes), tcp, l4_bytes)));
        send(context, frame, frame_bytes);
    }
    return true;
}
