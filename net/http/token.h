/* The characters of a token: methods, names of fields. RFC 9110 §5.6.2. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Returns true for a tchar: letters, digits and !#$%&'*+-.^_`|~ */
/*@ assigns \nothing; */
static inline bool http_is_token(uint8_t c)
{
    const uint64_t below_64 = UINT64_C(0x3ff6cfa00000000), below_128 = UINT64_C(0x57ffffffc7fffffe);
    return c < 64 ? (below_64 >> c & 1) != 0 : c < 128 && (below_128 >> (c - 64) & 1) != 0;
}
