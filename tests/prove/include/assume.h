/* For a proof that takes the product's assertions for granted: a state without them stops the machine. A proof includes
 * this file first. */
#pragma once

#include "base/assert.h"

_Noreturn static void prove_stop(void)
{
    for (;;)
        ;
}
#undef ASSERT
#define ASSERT(condition) ((condition) ? (void)0 : prove_stop())
