/* Tells an idle network from a card that takes no more buffers, or from a wire that is dead though the link is up.
 * Nothing comes from either, except that a neighbour on an idle network answers when it is asked. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/counters.h"

/* Begins, after transport_init. `gateway_may_be_mute`: no traffic needs ARP, so the neighbour's silence counts only
 * after a first answer. Else it must answer. */
void silence_init(bool gateway_may_be_mute);

/* Asks the neighbour in the second half of `timeout_ns`; 0: never. Returns true if no frame has come for that time,
 * though the neighbour was asked. `stood_still`: the loop stood still before this call, so the time counts from now.
 * Call once a millisecond. */
bool silence_poll(uint64_t timeout_ns, bool stood_still, uint64_t now_ns);

/* `asked` counts questions to the neighbour. `silence_ns` is the time without a frame so far, if the neighbour has been
 * asked meanwhile; else 0. */
#define SILENCE_COUNTERS(X) X(COUNT, asked), X(LEVEL, silence_ns)
extern struct silence_counters {
    uint64_t SILENCE_COUNTERS(COUNTER_MEMBER);
} silence_counters;
extern const struct counter_group silence_counter_group;
