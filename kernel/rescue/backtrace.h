/* The chain of callers, by frame pointers. Trusts no pointer that it follows. */
#pragma once

#include <stdint.h>

enum { BACKTRACE_LINE_COUNT_MAX = 32 }; /* a run of one return address, as recursion leaves, is one line */

/* Logs the backtrace of a trap: `rip` first, then the return address on top of the stack if there is one, then the
 * chain. */
void backtrace_log_trap(uint64_t rip, uint64_t rsp, uint64_t rbp);

/* Logs the chain from a frame: its caller, the caller's caller and so on. */
void backtrace_log(uint64_t rbp);
