/* Describes a trap in the log and in the crash record: registers, code, backtrace. */
#pragma once

#include "kernel/cpu/traps.h"

/* Logs and records the frame. Reads CR2 of this CPU. Trusts no address it finds. */
void trap_dump(const struct trap_frame *frame);
