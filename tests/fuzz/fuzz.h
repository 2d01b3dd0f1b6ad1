/* The entry point that libFuzzer calls, and the headers that all targets need. */
#pragma once

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
