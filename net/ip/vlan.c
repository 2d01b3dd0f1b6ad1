/* VLAN tags. A frame without a tag costs one comparison. */
#include "net/ip/vlan.h"

#include <assert.h>
#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "net/ip/ethernet_wire.h"

/* A tag, which stands before the EtherType. IEEE 802.1Q §9.5 */
struct tag_wire {
    uint16_t type;    /* 0x8100 or 0x88a8 */
    uint16_t control; /* priority and VLAN */
} __attribute__((packed));
static_assert(sizeof(struct tag_wire) == 4, "VLAN tag");
static_assert(NETDEV_TAGS_BYTES_MAX % sizeof(struct tag_wire) == 0, "a whole number of tags");
enum { ADDRESSES_BYTES = offsetof(struct ethernet_wire, type), VLAN_MASK = 0x0fff };

bool vlan_strip(struct frame *frame)
{
    uint32_t tags_bytes = 0;
    while (tags_bytes < NETDEV_TAGS_BYTES_MAX
           && frame->bytes >= tags_bytes + sizeof(struct tag_wire) + sizeof(struct ethernet_wire)
           && netdev_frame_is_tagged(frame->data + tags_bytes)) {
        const struct tag_wire *tag = (const struct tag_wire *)(frame->data + tags_bytes + ADDRESSES_BYTES);
        if ((load_be16(&tag->control) & VLAN_MASK) != 0)
            return false;
        tags_bytes += sizeof *tag;
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
