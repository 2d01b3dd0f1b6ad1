/* The stack's capacity for the player and its like: few connections, large buffers. */
#include "net/transport.h"

#include "net/transport_room.h"

enum {
    CONNECTIONS = TRANSPORT_CONNECTION_COUNT_MAX, /* one for each connection id; TIME-WAIT has a table of its own */
    HALF_OPENS = 64,                              /* 64 handshakes under way: the bound for a SYN flood */
    SEGMENTS = 64,                                /* in flight: 64 answers that nobody has acknowledged */
    RECEIVE_BYTES = 64 * 1024,                    /* the largest window without scaling; holds out-of-order data */
    SEND_BYTES = 16 * 1024,                       /* for messages that must be cut: eleven of the longest */
};

TRANSPORT_ROOM(CONNECTIONS, HALF_OPENS, SEGMENTS, RECEIVE_BYTES, SEND_BYTES);
