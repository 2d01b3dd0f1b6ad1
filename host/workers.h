/* The workers of app/service/work.h on Linux: threads, each pinned to a CPU. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Starts a thread for each of `cpus` CPUs (SERVICE_CPUS_ALL: all) but the first, and pins the caller to that one. Says
 * in the log if this process may use fewer, and goes on. With `sleeps` an idle worker sleeps. The last one also calls
 * `help`, which returns false if there was nothing to do. Returns how many there are. */
uint32_t workers_start(uint32_t cpus, bool sleeps, bool (*help)(void));
