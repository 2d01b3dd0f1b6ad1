/* net/transport.h over Linux sockets: the extra that only a hosted program needs. */
#pragma once

#include <stdint.h>

/* Has ports noted and not bound, and nothing connected: nobody's port is taken. Call before transport_init. */
void sockets_only_note_ports(void);

/* Has Linux poll the device for each socket that is asked in vain: the program never sleeps. Call before
 * transport_init. */
void sockets_spin(void);

/* Prints the ports that were noted, as `tcp 80` and `udp 18247`, a line each. */
void sockets_print_ports(void);

/* Sleeps until a socket has something to say, or until `deadline_ns`. Both times are platform_now_ns's. */
void sockets_wait(uint64_t now_ns, uint64_t deadline_ns);
