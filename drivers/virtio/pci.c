/* Opens a virtio PCI function: finds its registers, chooses modern or legacy, sets up MSI-X. */
#include "drivers/virtio/pci.h"

#include <string.h>

#include "base/assert.h"
#include "drivers/pci/spec.h"
#include "kernel/time/clock.h"

/* virtio 1.2 §4.1.2.1: Knows a transitional network device by its id 0x1000 and the type in the subsystem id, and
 * others by 0x1040 + type. */
bool virtio_pci_is_net(const struct pci_function *function)
{
    if (function->vendor != VIRTIO_PCI_VENDOR)
        return false;
    if (function->device == VIRTIO_PCI_DEVICE_NET)
        return true;
    return function->device == VIRTIO_PCI_DEVICE_NET_TRANSITIONAL && function->subsystem == VIRTIO_DEVICE_NET;
}

/* virtio 1.2 §4.1.4: Reads one capability for each structure; the first of a kind that can be reached counts. */
static bool modern_open(struct virtio_pci *pci, const struct pci_access *access, struct pci_address address,
                        const struct pci_bar bar[PCI_BAR_COUNT])
{
    static const uint32_t bytes_min[VIRTIO_PCI_CAP_TYPE_COUNT] = {
        [VIRTIO_PCI_CAP_COMMON_CFG] = VIRTIO_PCI_COMMON_BYTES,
        [VIRTIO_PCI_CAP_NOTIFY_CFG] = 2,
        [VIRTIO_PCI_CAP_DEVICE_CFG] = VIRTIO_NET_CONFIG_STATUS,
    };
    struct registers block[VIRTIO_PCI_CAP_TYPE_COUNT];
    bool found[VIRTIO_PCI_CAP_TYPE_COUNT] = { false };

    unsigned budget = PCI_CAPABILITY_COUNT_MAX;
    uint8_t at = 0;
    while ((at = pci_capability_next(access, address, PCI_CAPABILITY_VENDOR, at, &budget)) != 0) {
        uint8_t type = (uint8_t)(pci_read(access, address, at) >> 24);
        uint8_t index = (uint8_t)pci_read(access, address, at + VIRTIO_PCI_CAP_BAR);
        /* virtio 1.2 §4.1.4.1: types and BARs that the document reserves are ignored. The ISR status is never read. */
        if (type >= VIRTIO_PCI_CAP_TYPE_COUNT || bytes_min[type] == 0 || index >= PCI_BAR_COUNT || found[type])
            continue;
        uint32_t offset = pci_read(access, address, at + VIRTIO_PCI_CAP_OFFSET);
        uint32_t bytes = pci_read(access, address, at + VIRTIO_PCI_CAP_LENGTH);
        if (bytes < bytes_min[type] || !pci_registers_open(&bar[index], offset, bytes, &block[type]))
            continue;
        found[type] = true;
        if (type == VIRTIO_PCI_CAP_DEVICE_CFG)
            pci->bus.config_bytes = bytes;
        if (type == VIRTIO_PCI_CAP_NOTIFY_CFG) {
            pci->notify_bytes = bytes;
            pci->notify_multiplier = pci_read(access, address, at + VIRTIO_PCI_NOTIFY_CAP_MULT);
        }
    }
    if (!found[VIRTIO_PCI_CAP_COMMON_CFG] || !found[VIRTIO_PCI_CAP_NOTIFY_CFG] || !found[VIRTIO_PCI_CAP_DEVICE_CFG])
        return false;
    pci->common = block[VIRTIO_PCI_CAP_COMMON_CFG];
    pci->notify = block[VIRTIO_PCI_CAP_NOTIFY_CFG];
    pci->device = block[VIRTIO_PCI_CAP_DEVICE_CFG];
    ASSERT(pci->notify_bytes >= bytes_min[VIRTIO_PCI_CAP_NOTIFY_CFG]);
    pci->bus.ops = &virtio_pci_modern_ops;
    return true;
}

static bool legacy_open(struct virtio_pci *pci, const struct pci_bar *bar)
{
    ASSERT(pci->bus.ops == NULL);
    uint32_t config = pci->bus.interrupts ? VIRTIO_PCI_LEGACY_CONFIG_WITH_MSIX : VIRTIO_PCI_LEGACY_CONFIG;
    if (!bar->is_port || !pci_registers_open(bar, 0, config + VIRTIO_NET_CONFIG_STATUS, &pci->common))
        return false;
    pci->device = registers_at(pci->common, config);
    pci->bus.config_bytes = bar->bytes - config;
    pci->bus.ops = &virtio_pci_legacy_ops;
    pci->bus.legacy = pci->bus.queue_size_fixed = true;
    return true;
}

bool virtio_pci_open(struct virtio_pci *pci, const struct pci_access *access, const struct pci_function *function,
                     const struct pci_message *message)
{
    ASSERT(virtio_pci_is_net(function));
    struct pci_address address = function->address;
    memset(pci, 0, sizeof *pci);
    pci_function_name(function, pci->bus.place, sizeof pci->bus.place);

    struct pci_bar bar[PCI_BAR_COUNT];
    pci_bars_read(access, address, bar);
    pci_enable(access, address, clock_spin_us);

    /* Entry 0; queues are pointed at it when they are enabled. */
    pci->bus.interrupts = message && pci_msix_open(access, address, bar, 0, message);

    bool legacy_too = bar[0].present && bar[0].is_port;
    if (modern_open(pci, access, address, bar)) {
        pci->bus.name = legacy_too ? "transitional (driven as modern)" : "modern";
        return true;
    }
    pci->bus.name = "legacy";
    return legacy_open(pci, &bar[0]);
}
