/* The machine's power button, which its host presses: virsh shutdown, QMP's system_powerdown, a cloud's "stop". */
#pragma once

#include <stdbool.h>

/* Takes the button over from the firmware, and forgets a press from before. After acpi_init and clock_init, before the
 * seal. Machines of hardware-reduced ACPI (QEMU's microvm, Firecracker) have none: theirs is known to AML alone. */
void power_button_init(void);

/* Returns true if the button has been pressed since power_button_init or the last call. An exit or two. */
bool power_button_pressed(void);
