#include "base/version.h"

const char version_text[] = PEREGRINE_VERSION;
