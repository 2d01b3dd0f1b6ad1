/* The stack's capacity for a server: many connections, 40 KiB each. */
#include "net/transport.h"

#include "net/transport_room.h"

enum {
    CONNECTIONS = TRANSPORT_CONNECTION_COUNT_MANY,
    HALF_OPENS = 256,          /* all clients may come at once */
    SEGMENTS = 64,             /* in flight */
    RECEIVE_BYTES = 32 * 1024, /* the window of a slow round trip is smaller; memory for the fast ones is saved */
    SEND_BYTES = 4 * 1024,     /* for messages that must be cut */
};

TRANSPORT_ROOM(CONNECTIONS, HALF_OPENS, SEGMENTS, RECEIVE_BYTES, SEND_BYTES);
