/* Reads the build id out of the ELF note that image/linker.ld keeps. Knows no other note. */
#include "kernel/build_id.h"

#include "base/format.h"

/* ELF note: three words (bytes of the name, of the id, type 3), "GNU\0", the id. ld's manual, --build-id. */
enum { NOTE_HEAD_BYTES = 16 };

extern const uint8_t build_id_note[]; /* image/linker.ld */

const uint8_t *build_id(void) { return build_id_note + NOTE_HEAD_BYTES; }

const char *build_id_text(void)
{
    static char text[BUILD_ID_TEXT_BYTES + 1];
    for (int i = 0; i < BUILD_ID_BYTES; i++)
        format(text + 2 * i, 3, "%02x", build_id()[i]);
    return text;
}
