/* The twin: a second stack, with a device of its own that sends nothing. Idle time plays made-up frames on it.
 *
 * A frame that comes after a pause finds the stack's code outside the caches. To run that code on the real stack would
 * change sequence numbers, counters, timers and rings. The twin runs the same code on other memory, so a rehearsal
 * changes nothing that anybody can see, and nothing has to be put back. The lines of the real stack are fetched by
 * transport_warm. */
#pragma once

#include "net/stack.h"
#include "net/transport_path.h"

/* The index of the twin's one connection. */
enum { TWIN_CONNECTION = 0 };

/* Makes the twin of a stack with this configuration, again at each call. */
void twin_init(const struct net_config *like, uint64_t now_ns);

/* Puts a made-up frame into the receive ring of the twin's device. The device sums and cuts as `device` does. Returns
 * the stack that finds the frame; NULL: the twin has no connection for it now. */
struct net_stack *twin_receive(const struct transport_rehearsal *frame, const struct netdev *device, uint64_t now_ns);

/* Puts the acknowledgement of all that the connection has sent into the receive ring, if there is anything to
 * acknowledge. */
void twin_acknowledge(void);
