/* Settings: words of any bytes, in any state. Names are at most 18 bytes long, so that 20 bytes reach all keys. */
#include "base/settings.c"

#include "tests/prove/include/settings_state.h"

static void word(size_t bytes)
{
    prove_state_any();
    const struct setting *before = prove_number(0, 1) ? &settings.tables[0]->rows[0] : NULL;
    add_word(&settings, "source", prove_text(bytes), prove_number(0, 1), before);
    prove_state_holds();
}

void main(void)
{
    prove_state_begin();
    for (size_t bytes = 1; bytes <= 8; bytes++)
        word(bytes);
    word(20);
}
