/* draft-ietf-opsawg-pcapng, in the byte order of this machine: little endian. */
#include "net/capture/pcapng.h"

#include <assert.h>
#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/log.h"

enum {
    SECTION_HEADER = 0x0a0d0d0a,        /* §4.1 */
    BYTE_ORDER_MAGIC = 0x1a2b3c4d,      /* §4.1 */
    INTERFACE_DESCRIPTION = 0x00000001, /* §4.2 */
    ENHANCED_PACKET = 0x00000006,       /* §4.3 */
    LINKTYPE_ETHERNET = 1,
    VERSION_MAJOR = 1,
    VERSION_MINOR = 0,

    /* Options: §3.5, §4.1, §4.2, §4.3. */
    OPT_ENDOFOPT = 0,
    OPT_COMMENT = 1,
    SHB_USERAPPL = 4,
    IF_MACADDR = 6,
    IF_TSRESOL = 9,
    EPB_FLAGS = 2,

    TSRESOL_NANOSECONDS = 9,
    FLAGS_INBOUND = 1,
    FLAGS_OUTBOUND = 2,
};

/* ---- a block ---- */

static uint8_t *put32(uint8_t *at, uint64_t value)
{
    store_le32(at, (uint32_t)value);
    return at + 4;
}

/* Appends bytes, with zeros up to a multiple of 4. */
static uint8_t *put_padded(uint8_t *at, const void *data, size_t bytes)
{
    size_t padded = (bytes + 3) & ~(size_t)3;
    ASSERT(bytes > 0);
    store_le32(at + padded - 4, 0);
    memcpy(at, data, bytes);
    return at + padded;
}

static uint8_t *put_option(uint8_t *at, uint32_t code, const void *value, size_t bytes)
{
    ASSERT(bytes <= PCAPNG_COMMENT_BYTES_MAX);
    at = put32(at, code | (uint64_t)bytes << 16);
    return put_padded(at, value, bytes);
}

/* Ends the options and the block, whose length stands at both ends. Returns the length. */
static size_t block_end(uint8_t *block, uint8_t *at)
{
    at = put32(at, OPT_ENDOFOPT);
    size_t bytes = (size_t)(at + 4 - block);
    put32(at, bytes);
    put32(block + 4, bytes);
    ASSERT(bytes <= PCAPNG_BLOCK_BYTES_MAX && bytes % 4 == 0);
    return bytes;
}

/* Writes the blocks of section and interface. */
static size_t head(uint8_t block[PCAPNG_BLOCK_BYTES_MAX])
{
    static const char application[] = "peregrine";
    static const uint8_t resolution = TSRESOL_NANOSECONDS;
    uint8_t *at = put32(block, SECTION_HEADER);
    at = put32(at + 4, BYTE_ORDER_MAGIC);
    at = put32(at, VERSION_MAJOR | VERSION_MINOR << 16);
    at = put32(at, UINT32_MAX); /* 64 bits of ones: the section's length is not said */
    at = put32(at, UINT32_MAX);
    at = put_option(at, SHB_USERAPPL, application, sizeof application - 1);
    size_t section_bytes = block_end(block, at);

    uint8_t *interface = block + section_bytes;
    at = put32(interface, INTERFACE_DESCRIPTION);
    at = put32(at + 4, LINKTYPE_ETHERNET);
    at = put32(at, capture_bytes());
    at = put_option(at, IF_MACADDR, capture_mac(), NETDEV_MAC_BYTES);
    at = put_option(at, IF_TSRESOL, &resolution, sizeof resolution);
    return section_bytes + block_end(interface, at);
}

static size_t packet(const struct capture_frame *frame, uint8_t block[PCAPNG_BLOCK_BYTES_MAX])
{
    uint64_t time_ns = log_wall_origin_ns + frame->stamp_ns;
    uint8_t *at = put32(block, ENHANCED_PACKET);
    at = put32(at + 4, 0); /* the interface */
    at = put32(at, time_ns >> 32);
    at = put32(at, time_ns);
    at = put32(at, frame->kept_bytes);
    at = put32(at, frame->frame_bytes);
    ASSERT(frame->kept_bytes <= CAPTURE_BYTES_MAX);
    at = put_padded(at, capture_data(frame), frame->kept_bytes);
    uint8_t flags[4];
    store_le32(flags, frame->sent ? FLAGS_OUTBOUND : FLAGS_INBOUND);
    at = put_option(at, EPB_FLAGS, flags, sizeof flags);
    if (frame->dropped[0] != '\0')
        at = put_option(at, OPT_COMMENT, frame->dropped, strlen(frame->dropped));
    return block_end(block, at);
}

/* ---- files and records ---- */

size_t pcapng_next(uint64_t *position, uint64_t end, uint8_t block[PCAPNG_BLOCK_BYTES_MAX])
{
    struct capture_frame frame;
    ASSERT(capture_bytes() != 0 && end <= capture_newest());
    if (*position == 0) {
        *position = capture_oldest();
        return head(block);
    }
    if (*position < capture_oldest())
        *position = capture_oldest();
    while (*position <= end)
        if (capture_read((*position)++, &frame))
            return packet(&frame, block);
    return 0;
}

size_t pcapng_record(size_t index, char *out, size_t bytes)
{
    static uint64_t next; /* the number of the next packet */
    struct capture_frame frame;
    uint8_t block[PCAPNG_BLOCK_BYTES_MAX];
    size_t block_bytes = 0;
    if (capture_bytes() == 0)
        return 0;
    if (index == 0) {
        capture_flush();
        next = capture_newest();
        block_bytes = head(block);
    }
    while (block_bytes == 0 && next >= capture_oldest()) {
        if (!capture_read(next--, &frame))
            continue;
        frame.kept_bytes = (uint16_t)capture_public_bytes(&frame);
        block_bytes = packet(&frame, block);
    }
    ASSERT(block_bytes <= sizeof block);
    if (block_bytes > bytes)
        return 0;
    memcpy(out, block, block_bytes);
    return block_bytes;
}
