#include "app/service/control_text.h"

#include <assert.h>
#include <string.h>

#include "app/service/control.h"
#include "base/assert.h"
#include "base/bytes.h"
#include "base/format.h"
#include "base/log.h"
#include "net/capture/capture.h"
#include "net/capture/pcapng.h"

enum { LINES_PER_TURN = 4 };

static_assert((int)CONTROL_CAPTURE_TEXT_BYTES_MAX <= (int)STATS_TEXT_BYTES_MAX, "control_text.text");

struct control_text control_text;

void control_text_begin(uint8_t command, uint64_t position)
{
    /* Log and capture begin with a head, which is filled in when it is known how far the text goes. */
    control_text.command = command;
    control_text.rendered = false;
    control_text.line = 0;
    control_text.position = position;
    control_text.bytes = command == CONTROL_LOG       ? CONTROL_LOG_HEAD_BYTES
                         : command == CONTROL_CAPTURE ? CONTROL_CAPTURE_HEAD_BYTES
                                                      : 0;
    if (command != CONTROL_CAPTURE || capture_bytes() == 0)
        return;
    capture_flush();
    control_text.end = capture_newest();
}

void control_text_refuse(const char *message)
{
    control_text.bytes = min_size(strlen(message), CONTROL_REPLY_TEXT_BYTES_MAX);
    memcpy(control_text.text, message, control_text.bytes);
    control_text.rendered = true;
}

/* Renders the next line of what was asked for. 0: there are no more, or no more fit. */
static size_t render_line(char line[LOG_LINE_BYTES_MAX])
{
    ASSERT(!control_text.rendered && control_text.bytes <= sizeof control_text.text);
    if (control_text.command != CONTROL_LOG) {
        size_t bytes = stats_line(control_text.line++, line, STATS_LINE_BYTES_MAX);
        return bytes <= sizeof control_text.text - control_text.bytes ? bytes : 0;
    }
    uint64_t position = control_text.position;
    size_t bytes = log_read(&position, line);
    if (bytes == 0 || bytes > CONTROL_LOG_TEXT_BYTES_MAX - control_text.bytes)
        return 0;
    control_text.position = position;
    return bytes;
}

/* Writes the next block of the capture to the text. Returns false if there is none, or if no further one fits. */
static bool render_block(void)
{
    ASSERT(control_text.bytes >= CONTROL_CAPTURE_HEAD_BYTES);
    if (CONTROL_CAPTURE_TEXT_BYTES_MAX - control_text.bytes < PCAPNG_BLOCK_BYTES_MAX)
        return false;
    size_t bytes = pcapng_next(&control_text.position, control_text.end,
                               (uint8_t *)control_text.text + control_text.bytes);
    control_text.bytes += bytes;
    return bytes != 0;
}

/* Writes in front of the text from where to ask next time; of the capture, up to where as well. */
static void render_head(void)
{
    char head[CONTROL_CAPTURE_HEAD_BYTES + 1];
    if (control_text.command == CONTROL_LOG)
        format(head, sizeof head, "log %019llu\n", (unsigned long long)control_text.position);
    else
        format(head, sizeof head, "capture %019llu %019llu\n", (unsigned long long)control_text.position,
               (unsigned long long)control_text.end);
    ASSERT(strlen(head) <= control_text.bytes);
    memcpy(control_text.text, head, strlen(head));
}

void control_text_render(void)
{
    static_assert((int)STATS_LINE_BYTES_MAX <= (int)LOG_LINE_BYTES_MAX, "one buffer for both");
    char line[LOG_LINE_BYTES_MAX];
    for (unsigned i = 0; i < LINES_PER_TURN && !control_text.rendered; i++) {
        if (control_text.command == CONTROL_CAPTURE) {
            control_text.rendered = !render_block();
            continue;
        }
        size_t bytes = render_line(line);
        memcpy(control_text.text + control_text.bytes, line, bytes);
        control_text.bytes += bytes;
        control_text.rendered = bytes == 0;
    }
    if (control_text.rendered && (control_text.command == CONTROL_CAPTURE || control_text.command == CONTROL_LOG))
        render_head();
}
