/* The Intel 6300ESB's watchdog timer, as QEMU, libvirt and some clouds offer it (`-device i6300esb`): it resets the
 * machine by itself, whatever the CPUs do. Intel 6300ESB I/O Controller Hub data sheet (300641-004) §16, "Watchdog
 * Timer". */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Finds the device and starts it; it waits for 2082 s at most. Returns false if there is none, or, with a line in the
 * log, if it does not start. Before the seal. */
bool i6300esb_start(uint64_t timeout_ns);

/* Restarts its time-out; three exits. Does nothing if it was not started. */
void i6300esb_reload(void);
