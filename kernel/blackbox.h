/* The flight record: cause, registers, backtrace, statistics and the newest log lines, checksummed, in memory that
 * Linux reads after the reset. docs/blackbox.md has the format and says which memory. Knows no clock: records carry
 * log_clock_ns. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    BLACKBOX_REGION_COUNT_MAX = 4,
    BLACKBOX_PAGE_BYTES = 4096,
    BLACKBOX_REGISTER_COUNT = 26,
    BLACKBOX_ADDRESS_COUNT_MAX = 40,    /* a backtrace's lines (kernel/backtrace.h), twice in a trap inside a trap */
};

enum blackbox_state { BLACKBOX_RUNNING, BLACKBOX_TOLD, BLACKBOX_FAILED };

/* Writes line `index` ended by '\n', returns its bytes; 0 past the last. app/stats.h's stats_line. */
typedef size_t blackbox_line(size_t index, char *out, size_t out_bytes);

/* Adds memory that nobody else uses; lent for ever. What an earlier flight left there is made void. */
void blackbox_add_region(void *memory, size_t bytes);
void blackbox_set_statistics(blackbox_line *line);

/* The image's name, in every record from now on. */
enum { BLACKBOX_BUILD_ID_BYTES = 16 };
void blackbox_set_build_id(const uint8_t id[BLACKBOX_BUILD_ID_BYTES]);

/* What the next records tell. The registers are in the order of docs/blackbox.md. Addresses beyond the table's end are
 * left out. */
void blackbox_note_registers(const uint64_t registers[BLACKBOX_REGISTER_COUNT]);
void blackbox_note_address(uint64_t address);

/* Writes one record to every region, at once. A call inside a call (a trap while the record is written) leaves the
 * statistics out; one inside that does nothing. */
void blackbox_write(enum blackbox_state state, const char *cause);

/* The same for a machine that goes on, in slices of a few microseconds: begin, then step until it returns false. */
void blackbox_begin(void);
bool blackbox_step(void);
