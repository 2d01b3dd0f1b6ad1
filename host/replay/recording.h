/* A recorded day as packets: a file of ITCH messages, each after its length in two bytes, or a capture of frames (pcap,
 * pcapng). Knows files and formats, and no program. Sources: Nasdaq TotalView-ITCH 5.0; draft-ietf-opsawg-pcap;
 * draft-ietf-opsawg-pcapng; tcpdump's link types. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/bytes.h"

enum recording_kind { RECORDING_DATAGRAM, RECORDING_SEGMENT };
enum { RECORDING_FIN = 1, RECORDING_SYN = 2, RECORDING_RST = 4 }; /* RFC 9293 §3.1 */

/* A packet of the file. Addresses and ports are in host order. */
struct recording_packet {
    uint64_t time_ns; /* since 1970; in a file of ITCH messages since midnight */
    enum recording_kind kind;
    uint32_t from, to;
    uint16_t from_port, to_port;
    uint32_t sequence; /* a segment's */
    uint8_t flags;     /* a segment's */
    bool is_whole;     /* false: the file has the first bytes alone */
    struct bytes payload;
};

/* Begins to read. `line` and `line_port` are where the packets that are made of ITCH messages go. NULL, or a message.
 * The file is borrowed until the end. */
const char *recording_open(FILE *file, uint32_t line, uint16_t line_port);

/* Reads the next packet, whose payload is valid until the next call. Returns false at the end of the file, and with a
 * message in recording_failure if the file makes no sense. */
bool recording_next(struct recording_packet *packet);

extern struct recording {
    const char *failure; /* NULL: none */
    const char *format;
    uint64_t bytes, packets; /* read so far */
    uint64_t skipped;        /* packets that are no UDP or TCP over IPv4, and fragments */
} recording;
