/* The machine's network card: the search for it, and what the image asks of it besides net/netdev.h. The one place that
 * knows all kinds of cards; a kind is an entry of struct nic_kind in drivers/nic/nic.c. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/counters.h"
#include "drivers/pci/pci.h"
#include "kernel/settings.h"
#include "net/netdev.h"

/* The card that is wanted. All are borrowed until the last call of nic_find_next. */
struct nic_wish {
    const struct machine_virtio_mmio *words; /* virtio_mmio.device= */
    const struct pci_message *message;       /* gets the card's interrupts; NULL: there are none */
    const uint8_t *mac;                      /* the card's address; NULL: the first card that comes up */
};

/* Searches the virtio_mmio.device= words, the ACPI tables, then PCI, and lends the device until the machine's end in
 * *device. Reports it in one line of the log and names the others in a second one. Without any, lists the functions of
 * PCI. Returns NULL, or why there is none. Before memory_seal. */
const char *nic_find(struct netdev **device, const struct nic_wish *wish);

/* Returns how many cards nic_find_next may still try; 0 if the wish names one. */
size_t nic_cards_left(void);

/* Stops the card that is used, and puts the next one that comes up into the same struct netdev. The caller has shown
 * the stack a link that is down, and the stack holds no buffer. Each card takes memory of its own: before the seal.
 * Returns as nic_find. */
const char *nic_find_next(void);

/* Returns the group of counters `index` of the kinds of cards that this machine has, or NULL after the last. */
const struct counter_group *nic_counter_group(size_t index);

/* ---- the card that is used ---- */

/* Returns why it cannot be used any more (impossible values in its rings, a request for a reset, no answer), or NULL.
 * The caller gives the machine back. */
const char *nic_broken(void);

/* Returns true if it can end a sleep, which takes MSI-X. */
bool nic_can_wake(void);

/* Asks it to end a sleep at the next frame, until nic_quiet. Returns false if a frame is there already. */
bool nic_wake(void);

/* Asks for no more wake-ups. */
void nic_quiet(void);

/* Returns true if a received frame waits in the ring. On any CPU, for those who measure. */
bool nic_frame_waits(void);

/* Notifies it of frames to send, though none is new: for those who measure what that takes. */
void nic_notify(void);

/* Counts the buffers that neither it nor the stack holds, and for how long it has sent nothing of what it was given:
 * returns these seconds. Call once a second. */
uint64_t nic_levels(void);

/* Returns the counter of received frames. */
const uint64_t *nic_rx_frames(void);
