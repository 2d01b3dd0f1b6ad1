/* The machine below a program on Linux, which it cannot reach: app/machine.h. */
#include "app/machine.h"

#include "app/service/settings.h"
#include "base/assert.h"

const char *machine_probe_refusal(enum machine_probe probe)
{
    ASSERT(probe < MACHINE_PROBE_COUNT);
    return "a program on Linux cannot";
}

void machine_probe_begin(enum machine_probe probe) { ASSERT(machine_probe_refusal(probe) == NULL); }
void machine_probe_end(void) {}
uint64_t machine_probe_cycles(enum machine_probe probe) { return ASSERT(probe < MACHINE_PROBE_COUNT), 0; }

const char *machine_sleep_refusal(void)
{
    return service_settings.wait == SERVICE_WAIT_SLEEP ? "Linux wakes a program, no interrupt does"
                                                       : "wait=sleep is not set";
}
