/* The image's own name: the GNU build id that the linker made from its contents. */
#pragma once

#include <stdint.h>

/* The first bytes of the note's 20; docs/blackbox.md has the reason. */
enum { BUILD_ID_BYTES = 16, BUILD_ID_TEXT_BYTES = 2 * BUILD_ID_BYTES };

const uint8_t *build_id(void);   /* BUILD_ID_BYTES */
const char *build_id_text(void); /* in hexadecimal */
