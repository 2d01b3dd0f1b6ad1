/* The counters of the player and of the service under the names that they had until the release before this one. Goes
 * with the next release; docs/status.md, "Old names". */
#pragma once

#include "base/counters.h"

extern const struct counter_group player_old_names_group;
