/* Follows frame pointers through the stacks, and nowhere else. */
#include "kernel/rescue/backtrace.h"

#include "base/assert.h"
#include "base/log.h"
#include "kernel/cpu/stacks.h"
#include "kernel/rescue/blackbox.h"
#include "kernel/rescue/symbols.h"

static void log_frame(unsigned index, uint64_t address, enum symbol_use use)
{
    char where[SYMBOL_TEXT_BYTES_MAX];
    symbol_format(where, sizeof where, address, use);
    blackbox_note_address(address);
    log_line("  #%u 0x%lx %s", index, address, where);
}

/* Returns true if a word lies there, in a stack's body. */
static bool on_stack(uint64_t address) { return address % 8 == 0 && stack_has(address); }

/* Returns the frame at `rbp`, or NULL if none can be there. A frame is two words: the caller's frame pointer and the
 * return address (System V ABI AMD64 §3.2.2). */
static const uint64_t *frame_at(uint64_t rbp)
{
    return on_stack(rbp) && on_stack(rbp + 8) ? (const uint64_t *)rbp : NULL;
}

/* Logs the chain. It only rises, within the stacks, so it ends. */
static void log_chain(unsigned line, uint64_t rbp)
{
    uint64_t before = 0;
    unsigned repeats = 0;
    while (line < BACKTRACE_LINE_COUNT_MAX) {
        const uint64_t *frame = frame_at(rbp);
        if (frame != NULL && frame[1] == 0)
            return; /* boot/entry.asm's, the outermost */
        if (frame == NULL || !symbol_is_text(frame[1])) {
            log_line("  the chain is lost at 0x%lx", rbp);
            return;
        }
        if (frame[1] == before) {
            repeats++;
        } else {
            if (repeats != 0)
                log_line("     ... and %u times more", repeats);
            log_frame(line++, frame[1], SYMBOL_RETURN);
            before = frame[1];
            repeats = 0;
        }
        ASSERT(line <= BACKTRACE_LINE_COUNT_MAX);
        if (frame[0] <= rbp) {
            log_line("  the chain turns back to 0x%lx", frame[0]);
            return;
        }
        rbp = frame[0];
    }
}

/* Returns the return address that has no frame yet, or 0. It lies on top of the stack in a function without a frame,
 * before a function's first instruction, and after a call through a bad pointer. */
static uint64_t frameless_caller(uint64_t rsp, uint64_t rbp)
{
    const uint64_t *frame = frame_at(rbp);
    uint64_t address = on_stack(rsp) ? *(const uint64_t *)rsp : 0;
    return symbol_is_text(address) && (frame == NULL || frame[1] != address) ? address : 0;
}

void backtrace_log_trap(uint64_t rip, uint64_t rsp, uint64_t rbp)
{
    unsigned line = 0;
    log_line("  backtrace:");
    log_frame(line++, rip, SYMBOL_EXACT);
    uint64_t caller = frameless_caller(rsp, rbp);
    if (caller != 0)
        log_frame(line++, caller, SYMBOL_RETURN);
    log_chain(line, rbp);
}

void backtrace_log(uint64_t rbp)
{
    log_line("  backtrace:");
    log_chain(0, rbp);
}
