/* VLAN tags of received frames: IEEE 802.1Q §9.6. A tag with VLAN 0 gives the frame a priority and no VLAN. Some
 * switches and virtual networks put one into all frames. Frames that we send have none. */
#pragma once

#include "net/netdev.h"

/* Takes the tags of VLAN 0 off a frame. The frame then begins later in its memory, and its addresses have been moved
 * there. Returns false if the frame is not to be taken: it belongs to another VLAN, or is longer than any frame. */
bool vlan_strip(struct frame *frame);
