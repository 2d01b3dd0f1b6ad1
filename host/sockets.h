/* net/transport.h over Linux sockets: the extra that only a hosted program needs. */
#pragma once

#include <stdint.h>

/* Sleeps until a socket has something to say, or until `deadline_ns`. Both times are platform_now_ns's. */
void sockets_wait(uint64_t now_ns, uint64_t deadline_ns);
