/* The log on a screen: VGA text, or a linear framebuffer with a small font. For eyes at a VNC viewer.
 *
 * Nothing scrolls, because moving a screen costs milliseconds: lines fill it from the top and begin again at the top,
 * and one empty row always follows the newest line. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "kernel/firmware/boot_info.h"

/* Clears the screen. Returns false when there is none that can be used. Before memory_seal. */
bool screen_init(const struct boot_framebuffer *framebuffer);

enum { SCREEN_SLICE_CHARACTERS = 2 }; /* one VM exit on VGA text, 128 writes to a framebuffer */

/* Writes at most SCREEN_SLICE_CHARACTERS, and returns how many bytes it took. A log_sink. */
size_t screen_write(const char *text, size_t bytes);

/* Returns "VGA text 80x25", "framebuffer 1024x768x32", or "no screen". */
const char *screen_name(void);
