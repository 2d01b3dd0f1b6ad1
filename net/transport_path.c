/* The defaults of net/transport_path.h, for a transport that leaves a call out: lwIP, Linux, the tests' fake. They are
 * weak symbols, so a transport's own function wins at link time. */
#include "net/transport_path.h"

#define DEFAULT __attribute__((weak))

DEFAULT size_t transport_memory_bytes(uint32_t connection_count)
{
    (void)connection_count; /* the memory is static */
    return 0;
}

DEFAULT bool transport_counter_group(size_t index, struct counter_group *group)
{
    (void)index, (void)group;
    return false;
}

DEFAULT bool transport_alters_frames(void) { return false; }
DEFAULT bool transport_ask_neighbour(void) { return false; }

DEFAULT void transport_message_prepare(int connection, uint32_t from, uint32_t bytes)
{
    (void)connection, (void)from, (void)bytes;
}

DEFAULT void transport_warm(void) {}

DEFAULT bool transport_rehearsal_begin(const struct transport_rehearsal *rehearsal, uint64_t now_ns)
{
    (void)rehearsal, (void)now_ns;
    return false;
}

DEFAULT void transport_rehearsal_end(uint64_t now_ns) { (void)now_ns; }
DEFAULT void transport_rehearsal_abandon(void) {}
