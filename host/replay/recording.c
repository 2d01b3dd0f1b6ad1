#include "host/replay/recording.h"

#include <string.h>

#include "app/nasdaq/itch.h"
#include "app/nasdaq/mold.h"
#include "base/assert.h"
#include "base/time.h"

enum {
    BLOCK_BYTES_MAX = 1 << 18,
    PCAP_HEAD_BYTES = 24,
    PCAP_RECORD_BYTES = 16,
    NG_SECTION = 0x0a0d0d0a, /* pcapng's blocks */
    NG_INTERFACE = 1,
    NG_PACKET = 6,
    NG_HEAD_BYTES = 8,
    NG_PACKET_BYTES = 20, /* before the frame */
    NG_INTERFACE_COUNT_MAX = 16,
    NG_OPTION_TSRESOL = 9,
    NG_OPTION_TSOFFSET = 14,
    ETHERTYPE_IPV4 = 0x0800,
    ETHERTYPE_VLAN = 0x8100,
    ETHERTYPE_QINQ = 0x88a8,
    IP_TCP = 6,
    IP_UDP = 17,
    ITCH_DATAGRAM_BYTES = 1400, /* the most of a datagram that is made of messages */
    SILENCE_NS = NS_PER_S,      /* MoldUDP64 1.00: then a heartbeat is sent */
};
#define PCAP_US    UINT32_C(0xa1b2c3d4)
#define PCAP_NS    UINT32_C(0xa1b23c4d)
#define NG_MAGIC   UINT32_C(0x1a2b3c4d)
#define LINE_MAKER UINT32_C(0x7f000001) /* the source of datagrams that are made of messages */

/* The head of a frame: its length, and where its type stands. */
static const struct link_type {
    uint32_t number;
    uint8_t head_bytes, type_at;
} link_types[] = { { 1, 14, 12 }, { 101, 0, 0 }, { 228, 0, 0 }, { 113, 16, 14 }, { 276, 20, 0 } };

struct interface {
    const struct link_type *link;
    uint64_t units_per_s;
    uint64_t offset_s; /* modulo 2^64: of all its times */
};

struct recording recording;
static struct {
    FILE *file;
    bool (*next)(struct recording_packet *packet);
    bool swapped; /* the file has the other byte order than this machine */
    uint32_t line;
    uint16_t line_port;
    bool has_ended;                                     /* the end of the session has been read */
    uint64_t sequence;                                  /* number of the next ITCH message */
    uint64_t time_ns;                                   /* when the latest datagram was made */
    uint32_t pending_bytes;                             /* a message that begins the next datagram */
    uint8_t pending[MOLD_LENGTH_BYTES + UINT8_MAX + 1]; /* with its length */
    uint32_t interface_count;
    struct interface interfaces[NG_INTERFACE_COUNT_MAX];
    uint8_t block[BLOCK_BYTES_MAX];
} at;

/* ---- bytes ---- */

static bool fail(const char *why)
{
    ASSERT(why != NULL);
    recording.failure = why;
    return false;
}

/* Reads `bytes` bytes. Returns false at the end of the file; in the middle of something that is a failure. */
static bool read_bytes(void *out, size_t bytes, bool in_middle)
{
    const size_t got = fread(out, 1, bytes, at.file);
    ASSERT(got <= bytes);
    recording.bytes += got;
    if (got == bytes)
        return true;
    if (ferror(at.file) != 0)
        return fail("it cannot be read");
    return got > 0 || in_middle ? fail("it ends in the middle") : false;
}

static uint32_t word_at(const uint8_t *from) { return at.swapped ? load_be32(from) : load_le32(from); }
static uint16_t half_at(const uint8_t *from) { return at.swapped ? load_be16(from) : load_le16(from); }
static uint64_t long_at(const uint8_t *from) { return at.swapped ? load_be64(from) : load_le64(from); }

/* ---- frames ---- */

static const struct link_type *link_of(uint32_t number)
{
    for (size_t i = 0; i < sizeof link_types / sizeof link_types[0]; i++)
        if (link_types[i].number == number)
            return &link_types[i];
    fail("its link type is none of Ethernet, raw IP and Linux cooked");
    return NULL;
}

/* Cuts a frame's head off. Returns false if the frame carries no IPv4. */
static bool cut_link(const struct link_type *link, struct bytes *frame)
{
    uint32_t head = link->head_bytes, type_at = link->type_at;
    if (head == 0)
        return frame->count > 0 && frame->data[0] >> 4 == 4;
    if (frame->count < head)
        return false;
    uint16_t type = load_be16(frame->data + type_at);
    while ((type == ETHERTYPE_VLAN || type == ETHERTYPE_QINQ) && frame->count >= head + 4) {
        type = load_be16(frame->data + head + 2);
        head += 4;
    }
    ASSERT(head <= frame->count);
    *frame = (struct bytes){ frame->data + head, frame->count - head };
    return type == ETHERTYPE_IPV4;
}

/* Reads a UDP or TCP packet out of a frame. Returns false if the frame carries none. */
static bool take_frame(const struct link_type *link, struct bytes frame, struct recording_packet *packet)
{
    if (!cut_link(link, &frame) || frame.count < 20)
        return false;
    const uint8_t *ip = frame.data;
    const uint32_t head = (ip[0] & 15U) * 4, total = load_be16(ip + 2);
    const bool is_fragment = (load_be16(ip + 6) & 0x3fff) != 0, is_tcp = ip[9] == IP_TCP;
    const uint32_t least = is_tcp ? 20 : 8;
    if (is_fragment || (!is_tcp && ip[9] != IP_UDP) || head < 20 || total < head + least || frame.count < head + least)
        return false;
    const uint8_t *l4 = ip + head;
    const uint32_t l4_head = is_tcp ? (l4[12] >> 4) * 4U : least, whole = is_tcp ? total - head : load_be16(l4 + 4);
    if (l4_head < least || whole < l4_head || whole > total - head)
        return false;
    const size_t here = min_size(frame.count - head, whole);
    ASSERT(here >= l4_head || here < whole);
    packet->kind = is_tcp ? RECORDING_SEGMENT : RECORDING_DATAGRAM;
    packet->from = load_be32(ip + 12);
    packet->to = load_be32(ip + 16);
    packet->from_port = load_be16(l4);
    packet->to_port = load_be16(l4 + 2);
    packet->sequence = is_tcp ? load_be32(l4 + 4) : 0;
    packet->flags = is_tcp ? l4[13] : 0;
    packet->is_whole = here == whole;
    packet->payload = here > l4_head ? (struct bytes){ l4 + l4_head, here - l4_head } : (struct bytes){ l4, 0 };
    return true;
}

/* Returns a time of the file in nanoseconds. */
static uint64_t ns_of(uint64_t units, uint64_t units_per_s)
{
    ASSERT(units_per_s > 0);
    const unsigned __int128 rest = units % units_per_s;
    return units / units_per_s * NS_PER_S + (uint64_t)(rest * NS_PER_S / units_per_s);
}

/* ---- pcap ---- */

static bool next_of_pcap(struct recording_packet *packet)
{
    uint8_t head[PCAP_RECORD_BYTES];
    while (read_bytes(head, sizeof head, false)) {
        const uint32_t bytes = word_at(head + 8);
        if (bytes > sizeof at.block)
            return fail("a frame is longer than 256 KiB");
        if (!read_bytes(at.block, bytes, true))
            return false;
        const uint64_t parts_per_s = at.interfaces[0].units_per_s;
        packet->time_ns = word_at(head) * NS_PER_S + ns_of(word_at(head + 4), parts_per_s);
        if (take_frame(at.interfaces[0].link, (struct bytes){ at.block, bytes }, packet))
            return true;
        recording.skipped++;
    }
    return false;
}

/* Begins at a pcap file's head, of which the first word has been read. */
static const char *open_pcap(const uint8_t first[4])
{
    const uint32_t magic = word_at(first);
    ASSERT(magic == PCAP_US || magic == PCAP_NS);
    if (!read_bytes(at.block + 4, PCAP_HEAD_BYTES - 4, true))
        return recording.failure;
    at.interfaces[0] = (struct interface){ link_of(word_at(at.block + 20) & 0xffff),
                                           magic == PCAP_NS ? (uint64_t)NS_PER_S : (uint64_t)(NS_PER_S / NS_PER_US),
                                           0 };
    at.next = next_of_pcap;
    recording.format = "pcap";
    return recording.failure;
}

/* ---- pcapng ---- */

/* Notes an interface: its link type, the unit of its times, and their offset. */
static bool take_interface(struct bytes block)
{
    if (at.interface_count == NG_INTERFACE_COUNT_MAX)
        return fail("it has more than 16 interfaces");
    if (block.count < 8)
        return fail("an interface's block is too short");
    struct interface *i = &at.interfaces[at.interface_count++];
    *i = (struct interface){ link_of(half_at(block.data)), NS_PER_S / NS_PER_US, 0 };
    for (size_t o = 8; o + 4 <= block.count; o += 4 + (half_at(block.data + o + 2) + 3U) / 4 * 4) {
        if (half_at(block.data + o) == NG_OPTION_TSOFFSET && o + 12 <= block.count)
            i->offset_s = long_at(block.data + o + 4);
        if (half_at(block.data + o) != NG_OPTION_TSRESOL || o + 5 > block.count)
            continue;
        const uint8_t resolution = block.data[o + 4];
        i->units_per_s = 1;
        for (uint32_t k = 0; k < (resolution & 0x7fU) && i->units_per_s < UINT64_MAX / 20; k++)
            i->units_per_s *= resolution & 0x80 ? 2 : 10;
    }
    return recording.failure == NULL;
}

/* Reads a packet's block. Returns false if it carries nothing for us. */
static bool take_ng_packet(struct bytes block, struct recording_packet *packet)
{
    ASSERT(at.interface_count <= NG_INTERFACE_COUNT_MAX);
    if (block.count < NG_PACKET_BYTES || word_at(block.data) >= at.interface_count)
        return fail("a packet's block makes no sense");
    const struct interface *i = &at.interfaces[word_at(block.data)];
    const uint32_t bytes = word_at(block.data + 12);
    if (bytes > block.count - NG_PACKET_BYTES)
        return fail("a packet is longer than its block");
    const uint64_t units = (uint64_t)word_at(block.data + 4) << 32 | word_at(block.data + 8);
    packet->time_ns = ns_of(units, i->units_per_s) + i->offset_s * NS_PER_S;
    if (take_frame(i->link, (struct bytes){ block.data + NG_PACKET_BYTES, bytes }, packet))
        return true;
    recording.skipped++;
    return false;
}

/* Reads the rest of a block, whose head of two words has been read. Its length comes after it again. */
static bool read_block(const uint8_t head[NG_HEAD_BYTES], uint32_t *type, struct bytes *block)
{
    uint8_t order[4];
    *type = word_at(head); /* a section's is a palindrome */
    const bool is_section = *type == NG_SECTION;
    if (is_section && !read_bytes(order, sizeof order, true))
        return false;
    if (is_section) {
        at.swapped = load_le32(order) != NG_MAGIC;
        at.interface_count = 0;
        if (word_at(order) != NG_MAGIC)
            return fail("a section has no byte order");
    }
    ASSERT(NG_HEAD_BYTES == 2 * sizeof(uint32_t));
    const uint32_t bytes = word_at(head + 4), taken = is_section ? NG_HEAD_BYTES + 4 : NG_HEAD_BYTES;
    if (bytes < taken + 4 || bytes % 4 != 0 || bytes - taken > sizeof at.block)
        return fail("a block's length makes no sense");
    *block = (struct bytes){ at.block, bytes - taken - 4 };
    return read_bytes(at.block, bytes - taken, true);
}

static bool next_of_ng(struct recording_packet *packet)
{
    uint8_t head[NG_HEAD_BYTES];
    uint32_t type;
    struct bytes block;
    while (recording.failure == NULL && read_bytes(head, sizeof head, false) && read_block(head, &type, &block))
        if (type == NG_INTERFACE)
            take_interface(block);
        else if (type == NG_PACKET && take_ng_packet(block, packet))
            return true;
    return false;
}

static const char *open_ng(const uint8_t first[4])
{
    uint8_t head[NG_HEAD_BYTES];
    uint32_t type = 0;
    struct bytes block;
    memcpy(head, first, 4);
    if (read_bytes(head + 4, 4, true))
        read_block(head, &type, &block);
    ASSERT(recording.failure != NULL || type == NG_SECTION);
    at.next = next_of_ng;
    recording.format = "pcapng";
    return recording.failure;
}

/* ---- ITCH messages ---- */

/* Reads a message after its length to `at.pending`. Returns false at the end, also at that of the session: a message
 * of no bytes (Nasdaq BinaryFILE 1.00). */
static bool read_message(void)
{
    uint8_t length[MOLD_LENGTH_BYTES];
    if (at.pending_bytes > 0)
        return true;
    if (at.has_ended || !read_bytes(length, sizeof length, false))
        return false;
    const uint32_t bytes = load_be16(length);
    at.has_ended = bytes == 0;
    if (at.has_ended)
        return false;
    if (bytes < sizeof(struct itch_head_wire) || bytes > UINT8_MAX)
        return fail("the length of a message makes no sense");
    memcpy(at.pending, length, sizeof length);
    if (!read_bytes(at.pending + MOLD_LENGTH_BYTES, bytes, true))
        return false;
    at.pending_bytes = MOLD_LENGTH_BYTES + bytes;
    return true;
}

static uint64_t time_of_pending(void)
{
    const struct itch_head_wire *head = (const void *)(at.pending + MOLD_LENGTH_BYTES);
    ASSERT(at.pending_bytes > 0);
    return (uint64_t)load_be16(head->timestamp) << 32 | load_be32(head->timestamp + 2);
}

/* Makes a datagram of all messages that have the next one's time, or a heartbeat when a second has no message. */
static bool next_of_itch(struct recording_packet *packet)
{
    uint8_t *const datagram = at.block;
    uint32_t bytes = MOLD_HEADER_BYTES;
    uint16_t count = 0;
    ASSERT(at.sequence >= 1);
    if (!read_message())
        return false;
    const uint64_t due_ns = time_of_pending();
    if (at.sequence > 1 && due_ns > at.time_ns + SILENCE_NS)
        at.time_ns += SILENCE_NS;
    else
        at.time_ns = due_ns > at.time_ns ? due_ns : at.time_ns;
    struct mold_header_wire *const head = (void *)datagram;
    memcpy(head->session, "REPLAY    ", sizeof head->session);
    store_be64(&head->sequence, at.sequence);
    while (due_ns <= at.time_ns && read_message() && time_of_pending() <= at.time_ns
           && bytes + at.pending_bytes <= ITCH_DATAGRAM_BYTES) {
        memcpy(datagram + bytes, at.pending, at.pending_bytes);
        bytes += at.pending_bytes;
        at.pending_bytes = 0;
        count++;
    }
    store_be16(&head->count, count);
    at.sequence += count;
    *packet = (struct recording_packet){ .time_ns = at.time_ns,
                                         .kind = RECORDING_DATAGRAM,
                                         .from = LINE_MAKER,
                                         .to = at.line,
                                         .to_port = at.line_port,
                                         .is_whole = true,
                                         .payload = { datagram, bytes } };
    return recording.failure == NULL;
}

static const char *open_itch(const uint8_t first[4])
{
    const uint32_t bytes = load_be16(first);
    if (itch_bytes[first[2]] != bytes || bytes == 0)
        return "it is no file of ITCH messages after their lengths, no pcap and no pcapng";
    memcpy(at.pending, first, 4);
    ASSERT(bytes > 2);
    if (read_bytes(at.pending + 4, bytes - 2, true))
        at.pending_bytes = MOLD_LENGTH_BYTES + bytes;
    at.next = next_of_itch;
    recording.format = "ITCH";
    return recording.failure;
}

/* ---- the file ---- */

const char *recording_open(FILE *file, uint32_t line, uint16_t line_port)
{
    uint8_t first[4];
    memset(&recording, 0, sizeof recording);
    memset(&at, 0, sizeof at);
    at.file = file;
    at.line = line;
    at.line_port = line_port;
    at.sequence = 1;
    if (!read_bytes(first, sizeof first, true))
        return recording.bytes == 0 && recording.failure != NULL && !ferror(file) ? "it is empty" : recording.failure;
    const uint32_t magic = load_le32(first), other = load_be32(first);
    at.swapped = other == PCAP_US || other == PCAP_NS;
    ASSERT(at.next == NULL);
    if (magic == NG_SECTION)
        return open_ng(first);
    return at.swapped || magic == PCAP_US || magic == PCAP_NS ? open_pcap(first) : open_itch(first);
}

bool recording_next(struct recording_packet *packet)
{
    ASSERT(at.next != NULL);
    const bool found = recording.failure == NULL && at.next(packet);
    recording.packets += found;
    return found;
}
