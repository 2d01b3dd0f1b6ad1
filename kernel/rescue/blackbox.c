/* Writes the crash record, a step at a time: a running machine polls its device between two steps. */
#include "kernel/rescue/blackbox.h"

#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/log.h"
#include "base/version.h"

enum {
    VERSION = 1,

    /* Offsets in the header, docs/blackbox.md; the magic stands at 0. */
    HEADER_VERSION_AT = 8,
    HEADER_BYTES_AT = 12,
    HEADER_CRC_AT = 16,
    HEADER_STATE_AT = 20,
    HEADER_SEQUENCE_AT = 24,
    HEADER_CLOCK_AT = 32,
    HEADER_WALL_CLOCK_AT = 40,
    HEADER_BUILD_ID_AT = 48,
    HEADER_BYTES = 64,

    SECTION_HEAD_BYTES = 8, /* type, bytes */
    SECTION_CAUSE = 1,
    SECTION_REGISTERS,
    SECTION_BACKTRACE,
    SECTION_STATISTICS,
    SECTION_LOG,
    SECTION_VERSION,
    SECTION_FRAMES,
    CRC_BYTES_PER_STEP = 512,
    LINE_BYTES_MAX = LOG_LINE_BYTES_MAX,
};
static const char magic[8] = { 'P', 'E', 'R', 'E', 'G', 'B', 'O', 'X' };

struct region {
    uint8_t *memory;
    size_t slot_bytes;
};

static struct region regions[BLACKBOX_REGION_COUNT_MAX];
static size_t region_count;
static blackbox_line *statistics, *frames;
static uint64_t registers_noted[BLACKBOX_REGISTER_COUNT];
static bool registers_known;
static uint64_t addresses[BLACKBOX_ADDRESS_COUNT_MAX];
static size_t address_count;
static uint64_t sequence;
static uint8_t build[BLACKBOX_BUILD_ID_BYTES];

enum stage { STAGE_BEGIN, STAGE_STATISTICS, STAGE_LOG, STAGE_FRAMES, STAGE_CHECKSUM, STAGE_DONE };

/* The record that is being written. */
static struct {
    enum stage stage;
    enum blackbox_state state;
    const char *cause;
    bool without_statistics;
    size_t region;
    uint8_t *slot;
    size_t slot_bytes, bytes;
    size_t section; /* the offset of the open section's head */
    size_t line;    /* the next one of the statistics, or of the frames */
    uint64_t log_position, log_end;
    size_t crc_bytes;
    uint32_t crc;
} writer = { .stage = STAGE_DONE };

static size_t padded(size_t bytes) { return (bytes + 7) & ~(size_t)7; }

/* Writes the magic in this order with other stores: a reset may come at any moment, and the memory is read after it. */
static void magic_write(uint8_t *slot, bool valid)
{
    __asm__ volatile("" : : : "memory");
    memcpy(slot, valid ? magic : (const char[8]){ 0 }, sizeof magic);
    __asm__ volatile("" : : : "memory");
}

/* Adds bytes to a CRC, IEEE 802.3 §3.2.9, reflected, four bits a step: the table takes one cache line, not sixteen. */
static uint32_t crc_add(uint32_t crc, const uint8_t *at, size_t bytes)
{
    static const uint32_t table[16] = {
        0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4, 0x4db26158, 0x5005713c,
        0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c, 0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c,
    };
    while (bytes-- > 0) {
        crc ^= *at++;
        crc = crc >> 4 ^ table[crc & 15];
        crc = crc >> 4 ^ table[crc & 15];
    }
    return crc;
}

/* ---- sections ---- */

static void section_open(uint32_t type)
{
    ASSERT(writer.bytes % 8 == 0 && writer.bytes + SECTION_HEAD_BYTES <= writer.slot_bytes);
    writer.section = writer.bytes;
    store_le32(writer.slot + writer.bytes, type);
    store_le32(writer.slot + writer.bytes + 4, 0);
    writer.bytes += SECTION_HEAD_BYTES;
}

static size_t section_room(void) { return writer.slot_bytes - writer.bytes; }

/* Adds all of it or nothing. There is room for the padding then: slots are multiples of 8. */
static bool section_add(const void *data, size_t bytes)
{
    if (bytes > section_room())
        return false;
    ASSERT(writer.bytes >= writer.section + SECTION_HEAD_BYTES);
    memcpy(writer.slot + writer.bytes, data, bytes);
    writer.bytes += bytes;
    return true;
}

static void section_close(void)
{
    ASSERT(writer.bytes >= writer.section + SECTION_HEAD_BYTES && writer.bytes <= writer.slot_bytes);
    size_t bytes = writer.bytes - writer.section - SECTION_HEAD_BYTES;
    store_le32(writer.slot + writer.section + 4, (uint32_t)bytes);
    while (writer.bytes % 8 != 0)
        writer.slot[writer.bytes++] = 0;
}

/* Adds a section, or leaves it out if it does not fit. */
static void section_whole(uint32_t type, const void *data, size_t bytes)
{
    if (bytes == 0 || SECTION_HEAD_BYTES + padded(bytes) > section_room())
        return;
    section_open(type);
    section_add(data, bytes);
    section_close();
}

/* ---- the steps ---- */

static uint64_t slot_sequence(const uint8_t *slot)
{
    return memcmp(slot, magic, sizeof magic) == 0 ? load_le64(slot + HEADER_SEQUENCE_AT) : 0;
}

/* Returns the slot whose record is older or void. */
static uint8_t *slot_choose(const struct region *region)
{
    uint8_t *second = region->memory + region->slot_bytes;
    return slot_sequence(region->memory) <= slot_sequence(second) ? region->memory : second;
}

static void section_begin_if_room(uint32_t type, enum stage stage)
{
    if (section_room() <= SECTION_HEAD_BYTES) {
        writer.stage = STAGE_CHECKSUM;
        return;
    }
    section_open(type);
    writer.stage = stage;
}

static bool has_frames(void) { return frames != NULL && !writer.without_statistics; }

/* Begins the log, which leaves half of the room to frames. */
static void log_begin(void)
{
    section_begin_if_room(SECTION_LOG, STAGE_LOG);
    if (writer.stage == STAGE_LOG)
        writer.log_position = log_tail_position(section_room() / (has_frames() ? 2 : 1), &writer.log_end);
}

static void frames_begin(void)
{
    writer.line = 0;
    if (has_frames())
        section_begin_if_room(SECTION_FRAMES, STAGE_FRAMES);
    else
        writer.stage = STAGE_CHECKSUM;
}

static void step_begin(void)
{
    ASSERT(writer.region < region_count);
    const struct region *region = &regions[writer.region];
    uint8_t *slot = slot_choose(region);
    magic_write(slot, false);
    writer.slot = slot;
    writer.slot_bytes = region->slot_bytes;
    memset(slot, 0, HEADER_BYTES);
    store_le32(slot + HEADER_VERSION_AT, VERSION);
    store_le32(slot + HEADER_STATE_AT, writer.state);
    store_le64(slot + HEADER_SEQUENCE_AT, sequence);
    store_le64(slot + HEADER_CLOCK_AT, log_clock_ns);
    store_le64(slot + HEADER_WALL_CLOCK_AT, log_wall_origin_ns != 0 ? log_wall_origin_ns + log_clock_ns : 0);
    memcpy(slot + HEADER_BUILD_ID_AT, build, sizeof build);
    writer.bytes = HEADER_BYTES;
    section_whole(SECTION_CAUSE, writer.cause, strlen(writer.cause));
    section_whole(SECTION_VERSION, version_text, strlen(version_text));
    section_whole(SECTION_REGISTERS, registers_noted, registers_known ? sizeof registers_noted : 0);
    section_whole(SECTION_BACKTRACE, addresses, address_count * sizeof addresses[0]);
    writer.line = 0;
    writer.crc_bytes = 0;
    writer.crc = UINT32_MAX;
    if (statistics == NULL || writer.without_statistics)
        log_begin();
    else
        section_begin_if_room(SECTION_STATISTICS, STAGE_STATISTICS);
}

static void step_statistics(void)
{
    char line[LINE_BYTES_MAX];
    size_t bytes = statistics(writer.line++, line, sizeof line);
    if (bytes == 0 || !section_add(line, bytes)) {
        section_close();
        log_begin();
    }
}

static void step_log(void)
{
    char line[LOG_LINE_BYTES_MAX];
    if (writer.log_position < writer.log_end) {
        size_t bytes = log_read(&writer.log_position, line);
        if (bytes != 0 && section_add(line, bytes))
            return;
    }
    section_close();
    frames_begin();
}

/* Adds a block, which its source writes in place. */
static void step_frames(void)
{
    size_t room = section_room(), bytes = frames(writer.line++, (char *)writer.slot + writer.bytes, room);
    ASSERT(bytes <= room);
    writer.bytes += bytes;
    if (bytes != 0)
        return;
    section_close();
    writer.stage = STAGE_CHECKSUM;
}

/* Adds a part of the record to its checksum. Magic and checksum count as zeros, and are zeros until the end. */
static void step_checksum(void)
{
    if (writer.crc_bytes == 0)
        store_le32(writer.slot + HEADER_BYTES_AT, (uint32_t)writer.bytes);
    ASSERT(writer.crc_bytes <= writer.bytes);
    size_t part = min_size(writer.bytes - writer.crc_bytes, CRC_BYTES_PER_STEP);
    writer.crc = crc_add(writer.crc, writer.slot + writer.crc_bytes, part);
    writer.crc_bytes += part;
    if (writer.crc_bytes == writer.bytes) {
        store_le32(writer.slot + HEADER_CRC_AT, ~writer.crc);
        magic_write(writer.slot, true);
        writer.region++;
        writer.stage = writer.region < region_count ? STAGE_BEGIN : STAGE_DONE;
    }
}

static void start(enum blackbox_state state, const char *cause, bool without_statistics)
{
    ASSERT(cause != NULL);
    sequence++;
    writer.stage = region_count > 0 ? STAGE_BEGIN : STAGE_DONE;
    writer.state = state;
    writer.cause = cause;
    writer.without_statistics = without_statistics;
    writer.region = 0;
}

bool blackbox_step(void)
{
    ASSERT(writer.stage == STAGE_DONE || writer.region < region_count);
    switch (writer.stage) {
    case STAGE_BEGIN:
        step_begin();
        break;
    case STAGE_STATISTICS:
        step_statistics();
        break;
    case STAGE_LOG:
        step_log();
        break;
    case STAGE_FRAMES:
        step_frames();
        break;
    case STAGE_CHECKSUM:
        step_checksum();
        break;
    case STAGE_DONE:
        break;
    }
    return writer.stage != STAGE_DONE;
}

void blackbox_begin(void) { start(BLACKBOX_RUNNING, "", false); }

void blackbox_write(enum blackbox_state state, const char *cause)
{
    static unsigned depth;
    if (depth < 2) {
        start(state, cause, depth++ > 0);
        while (blackbox_step()) {
        }
        ASSERT(writer.region == region_count);
        depth--;
    }
}

/* ---- the contents ---- */

void blackbox_add_region(void *memory, size_t bytes)
{
    ASSERT(region_count < BLACKBOX_REGION_COUNT_MAX);
    ASSERT(bytes >= BLACKBOX_PAGE_BYTES && bytes % BLACKBOX_PAGE_BYTES == 0);
    size_t half = bytes / 2;
    struct region *region = &regions[region_count++];
    region->memory = memory;
    ASSERT(half % 8 == 0);
    region->slot_bytes = half < BLACKBOX_PAGE_BYTES ? half : half & -(size_t)BLACKBOX_PAGE_BYTES;
    magic_write(region->memory, false);
    magic_write(region->memory + region->slot_bytes, false);
}

void blackbox_set_statistics(blackbox_line *line) { statistics = line; }

void blackbox_set_frames(blackbox_line *block) { frames = block; }

void blackbox_set_build_id(const uint8_t id[BLACKBOX_BUILD_ID_BYTES]) { memcpy(build, id, sizeof build); }

void blackbox_note_registers(const uint64_t registers[BLACKBOX_REGISTER_COUNT])
{
    memcpy(registers_noted, registers, sizeof registers_noted);
    registers_known = true;
}

void blackbox_note_address(uint64_t address)
{
    if (address_count < BLACKBOX_ADDRESS_COUNT_MAX)
        addresses[address_count++] = address;
}
