/* VLAN tags. A frame without a tag costs one comparison. */
#include "net/ip/vlan.h"

#include <assert.h>
#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"

enum {
    ADDRESSES_BYTES = 2 * NETDEV_MAC_BYTES,
    TYPE_BYTES = 2,
    TAG_BYTES = 4, /* 0x8100 or 0x88a8, then priority and VLAN */
    VLAN_MASK = 0x0fff,
};
static_assert(NETDEV_TAGS_BYTES_MAX % TAG_BYTES == 0, "a whole number of tags");

bool vlan_strip(struct frame *frame)
{
    uint32_t tags_bytes = 0;
    while (tags_bytes < NETDEV_TAGS_BYTES_MAX && frame->bytes >= tags_bytes + ADDRESSES_BYTES + TAG_BYTES + TYPE_BYTES
           && netdev_frame_is_tagged(frame->data + tags_bytes)) {
        if ((load_be16(frame->data + tags_bytes + ADDRESSES_BYTES + TYPE_BYTES) & VLAN_MASK) != 0)
            return false;
        tags_bytes += TAG_BYTES;
    }
    if (tags_bytes != 0) {
        memmove(frame->data + tags_bytes, frame->data, ADDRESSES_BYTES);
        frame->data += tags_bytes;
        frame->bytes -= tags_bytes;
    }
    ASSERT(tags_bytes <= NETDEV_TAGS_BYTES_MAX);
    /* An untagged frame is as long as its device allows: more than an Ethernet frame in the library. */
    return tags_bytes == 0 || frame->bytes <= NETDEV_FRAME_BYTES_MAX;
}
