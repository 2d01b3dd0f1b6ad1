/* Who called whom, by the chain of frame pointers. Trusts nothing it follows. */
#pragma once

#include <stdint.h>

enum { BACKTRACE_LINE_COUNT_MAX = 32 };     /* a run of the same return address, as recursion leaves it, is one line */

/* From a trap: `rip` first, then the return address on top of the stack if there is one, then the chain. */
void backtrace_log_trap(uint64_t rip, uint64_t rsp, uint64_t rbp);

/* From here: the caller's caller and so on. `rbp` is __builtin_frame_address(0). */
void backtrace_log(uint64_t rbp);
