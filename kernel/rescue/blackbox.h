/* The crash record: cause, version, registers, backtrace, statistics, the newest log lines and frames, checksummed, in
 * memory that Linux reads after the reset. docs/blackbox.md has the format and says which memory. Knows no clock:
 * records carry log_clock_ns. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    BLACKBOX_REGION_COUNT_MAX = 4,
    BLACKBOX_PAGE_BYTES = 4096,
    BLACKBOX_REGISTER_COUNT = 26,
    BLACKBOX_ADDRESS_COUNT_MAX = 40, /* a backtrace has 32 at most; the rest is for nested panics */
};

enum blackbox_state { BLACKBOX_RUNNING, BLACKBOX_REQUESTED, BLACKBOX_FAILED };

/* Writes line `index`, ended by '\n', returns its bytes; 0 past the last. app/service/stats.h's stats_line. */
typedef size_t blackbox_line(size_t index, char *out, size_t out_bytes);

/* Adds memory, which belongs to the record from then on. Makes the record of an earlier boot in it void. */
void blackbox_add_region(void *memory, size_t bytes);

/* Sets the source of the statistics. */
void blackbox_set_statistics(blackbox_line *line);

/* Sets the source of the frames, if any are kept: net/capture/pcapng.h's pcapng_record. They share the room with the
 * log. */
void blackbox_set_frames(blackbox_line *block);

enum { BLACKBOX_BUILD_ID_BYTES = 16 };

/* Sets the image's build id, for every record from now on. */
void blackbox_set_build_id(const uint8_t id[BLACKBOX_BUILD_ID_BYTES]);

/* Sets the registers of the next records, in the order of docs/blackbox.md. */
void blackbox_note_registers(const uint64_t registers[BLACKBOX_REGISTER_COUNT]);

/* Adds an address to the backtrace of the next records. Addresses beyond the table's end are left out. */
void blackbox_note_address(uint64_t address);

/* Writes one record to every region, at once. If a trap comes meanwhile, its own call starts the record again, without
 * the statistics. A third call inside the second does nothing. */
void blackbox_write(enum blackbox_state state, const char *cause);

/* Begins a record of a machine that goes on: blackbox_step writes it. */
void blackbox_begin(void);

/* Writes a slice of it, a few microseconds long. Returns false when the record is complete. */
bool blackbox_step(void);
