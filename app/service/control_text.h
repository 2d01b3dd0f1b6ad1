/* The text of a reply of the control channel: statistics, log, capture, or a refusal. One at a time, in static memory;
 * rendered a little in each turn, as a line takes about a microsecond. docs/control.md. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "app/service/stats.h"

extern struct control_text {
    uint8_t command;        /* CONTROL_LOG, CONTROL_CAPTURE; any other: the statistics */
    bool rendered;          /* `text` is whole */
    uint32_t line;          /* the statistics' next one */
    uint64_t position, end; /* the place in log or capture; the capture's last frame */
    size_t bytes;
    char text[STATS_TEXT_BYTES_MAX]; /* no NUL at its end */
} control_text;

/* Begins the text that answers a command, of log and capture from `position` on. */
void control_text_begin(uint8_t command, uint64_t position);

/* Makes a message the whole text, cut to CONTROL_REPLY_TEXT_BYTES_MAX bytes. */
void control_text_refuse(const char *message);

/* Renders a few more lines. */
void control_text_render(void);
