/* Finds the network device of this machine: the one place where registers, PCI and the driver meet. */
#include <string.h>

#include "base/assert.h"
#include "base/format.h"
#include "base/log.h"
#include "drivers/pci/pci.h"
#include "drivers/pci/spec.h"
#include "drivers/virtio/mmio.h"
#include "drivers/virtio/net.h"
#include "drivers/virtio/pci.h"
#include "kernel/cpu/hypervisor.h"
#include "kernel/firmware/acpi.h"

static struct virtio_net net;
static struct pci_list pci_list;

static enum virtio_net_error start(struct virtio_bus *bus)
{
    char text[LOG_LINE_BYTES_MAX];
    bus->behind = acpi_iommu() != NULL ? acpi_iommu() : hypervisor_memory_encryption();
    enum virtio_net_error error = virtio_net_init(&net, bus);
    if (error == VIRTIO_NET_OK) {
        virtio_net_describe(&net, text, sizeof text);
        log_line("virtio-net: %s", text);
    } else {
        const char *behind = error == VIRTIO_NET_NEEDS_PLATFORM ? bus->behind : "";
        log_line("virtio-net: %s, %s: %s%s%s", bus->place, bus->name, virtio_net_error_text(error),
                 behind[0] != '\0' ? ": " : "", behind);
    }
    return error;
}

static enum virtio_net_error try_mmio(const struct virtio_mmio_word *word)
{
    static struct virtio_mmio mmio;
    return virtio_mmio_open(&mmio, word, VIRTIO_DEVICE_NET) ? start(&mmio.bus) : VIRTIO_NET_NO_DEVICE;
}

/* Places that the settings name, then those of the ACPI tables. */
struct mmio_places {
    const struct machine_virtio_mmio *settings;
    uint32_t next_word; /* into the settings */
    size_t next_node;   /* into the ACPI tables */
};

static bool mmio_next(struct mmio_places *places, struct virtio_mmio_word *word)
{
    while (places->next_word < places->settings->count) {
        const char *text = places->settings->words[places->next_word++];
        if (virtio_mmio_parse(text, word))
            return true;
        log_line("virtio_mmio.device=%s is not SIZE@ADDRESS:IRQ", text);
    }
    const struct acpi_virtio_mmio *node = acpi_virtio_mmio(places->next_node++);
    if (node)
        *word = (struct virtio_mmio_word){ .address = node->base, .bytes = node->bytes };
    return node != NULL;
}

static enum virtio_net_error find_mmio(struct mmio_places *places)
{
    enum virtio_net_error error = VIRTIO_NET_NO_DEVICE;
    struct virtio_mmio_word word;
    while (error != VIRTIO_NET_OK && mmio_next(places, &word)) {
        enum virtio_net_error here = try_mmio(&word);
        error = here != VIRTIO_NET_NO_DEVICE ? here : error; /* the last device's error, not that of an empty place */
    }
    return error;
}

/* The first device that comes up is used. The others are named in the log, for a reader who expected another one. */
static struct {
    char text[LOG_LINE_BYTES_MAX];
    size_t bytes;
} others;

static void others_add(const char *place)
{
    ASSERT(others.bytes < sizeof others.text);
    others.bytes += format(others.text + others.bytes, sizeof others.text - others.bytes, " %s", place);
}

/* Adds the places that were not tried; does not drive them. */
static void others_of_mmio(struct mmio_places *places)
{
    static struct virtio_mmio other;
    struct virtio_mmio_word word;
    while (mmio_next(places, &word))
        if (virtio_mmio_open(&other, &word, VIRTIO_DEVICE_NET) && strcmp(other.bus.place, net.bus->place) != 0)
            others_add(other.bus.place);
}

/* Adds, from the functions found so far, virtio's from `next` on, and all others that call themselves Ethernet
 * controllers. */
static void others_of_pci(size_t next)
{
    ASSERT(next <= pci_list.count);
    char name[32];
    for (size_t i = 0; i < pci_list.count; i++) {
        const struct pci_function *function = &pci_list.function[i];
        if (virtio_pci_is_net(function) ? i < next : function->class_code >> 8 != PCI_CLASS_ETHERNET)
            continue;
        pci_function_name(function, name, sizeof name);
        others_add(name);
    }
}

/* Tries the functions of the list from *next on. */
static enum virtio_net_error find_pci_listed(const struct pci_access *access, const struct virtio_message *message,
                                             size_t *next)
{
    static struct virtio_pci pci;
    ASSERT(*next <= pci_list.count);
    enum virtio_net_error error = VIRTIO_NET_NO_DEVICE;
    while (error != VIRTIO_NET_OK && *next < pci_list.count) {
        const struct pci_function *function = &pci_list.function[(*next)++];
        if (!virtio_pci_is_net(function))
            continue;
        pci_assign(access, &pci_list, function);
        error = virtio_pci_open(&pci, access, function, message) ? start(&pci.bus) : VIRTIO_NET_NO_REGISTERS;
    }
    return error;
}

static enum virtio_net_error find_pci(const struct virtio_message *message)
{
    const struct pci_access *access = pci_access_find();
    if (!access) {
        log_line("pci: none");
        return VIRTIO_NET_NO_DEVICE;
    }
    size_t next = 0;
    pci_scan_bus(access, &pci_list, access->bus_first);
    enum virtio_net_error error = find_pci_listed(access, message, &next);

    /* A second host bridge has buses that no bridge of the first leads to. They are asked for only now: it takes
     * thousands of exits. */
    for (unsigned bus = access->bus_first; error == VIRTIO_NET_NO_DEVICE && bus <= access->bus_last; bus++) {
        pci_scan_bus(access, &pci_list, (uint8_t)bus);
        error = find_pci_listed(access, message, &next);
    }
    if (error != VIRTIO_NET_OK)
        pci_print(access, &pci_list);
    else
        others_of_pci(next);
    return error;
}

enum virtio_net_error virtio_net_find(struct netdev **device, const struct machine_virtio_mmio *words,
                                      const struct virtio_message *message)
{
    struct mmio_places places = { .settings = words };
    enum virtio_net_error error = find_mmio(&places);
    if (error == VIRTIO_NET_OK) {
        others_of_mmio(&places);
        const struct pci_access *access = pci_access_find();
        if (access)
            pci_scan_bus(access, &pci_list, access->bus_first);
        others_of_pci(0);
    } else {
        enum virtio_net_error pci_error = find_pci(message);
        if (pci_error != VIRTIO_NET_NO_DEVICE || error == VIRTIO_NET_NO_DEVICE)
            error = pci_error;
    }
    if (error == VIRTIO_NET_OK) {
        *device = &net.device;
        virtio_net_check(&net);
        if (others.bytes != 0)
            log_line("virtio-net: other network devices, left alone:%s", others.text);
    }
    return error;
}
