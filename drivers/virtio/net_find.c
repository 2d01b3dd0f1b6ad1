/* Finds the network device of this machine: the one place where registers, PCI and the driver meet.
 *
 * The cards have an order: places that the settings name, places of the ACPI tables, then PCI. card_next opens one
 * after the other. The first that comes up is used, or the one with the address of nic=. */
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

/* Places that the settings name, then those of the ACPI tables. */
struct mmio_places {
    const struct machine_virtio_mmio *settings;
    uint32_t next_word; /* into the settings */
    size_t next_node;   /* into the ACPI tables */
};

#define MAC_FORMAT     "%02x:%02x:%02x:%02x:%02x:%02x"
#define MAC_BYTES(mac) (mac)[0], (mac)[1], (mac)[2], (mac)[3], (mac)[4], (mac)[5]

/* The progress of the search. */
static struct {
    struct virtio_net_wish wish;
    struct mmio_places places;
    char place[sizeof((struct virtio_bus *)0)->place]; /* the newest card's: one place may be named twice */
    const struct pci_access *access;                   /* NULL: PCI's turn has not come, or there is none */
    unsigned next_bus;
    size_t next_function; /* into pci_list */
    size_t cards_left;    /* virtio cards that follow the used one */
} search;

/* The cards that are not used, in the order of the search. They are named in the log, for a reader who expected another
 * one. */
static struct {
    char text[LOG_LINE_BYTES_MAX];
    size_t bytes;
} others;

static void others_add(const char *place)
{
    ASSERT(others.bytes < sizeof others.text);
    others.bytes += format(others.text + others.bytes, sizeof others.text - others.bytes, " %s", place);
}

/* ---- the cards, one after the other ---- */

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

static struct virtio_bus *card_next_mmio(void)
{
    static struct virtio_mmio mmio;
    struct virtio_mmio_word word;
    while (mmio_next(&search.places, &word))
        if (virtio_mmio_open(&mmio, &word, VIRTIO_DEVICE_NET) && strcmp(mmio.bus.place, search.place) != 0)
            return &mmio.bus;
    return NULL;
}

/* Scans the first bus of PCI, if that has not been done. Returns false without PCI. */
static bool pci_begin(void)
{
    if (search.access != NULL)
        return true;
    search.access = pci_access_find();
    if (search.access == NULL)
        return false;
    search.next_bus = search.access->bus_first;
    pci_scan_bus(search.access, &pci_list, (uint8_t)search.next_bus++);
    return true;
}

/* Opens the next virtio function; `*error` changes if one cannot be opened. A second host bridge has buses that no
 * bridge of the first leads to. They are asked for last: it takes thousands of exits. */
static struct virtio_bus *card_next_pci(enum virtio_net_error *error)
{
    static struct virtio_pci pci;
    ASSERT(search.access != NULL);
    for (;;) {
        while (search.next_function < pci_list.count) {
            const struct pci_function *function = &pci_list.function[search.next_function++];
            if (!virtio_pci_is_net(function))
                continue;
            pci_assign(search.access, &pci_list, function);
            if (virtio_pci_open(&pci, search.access, function, search.wish.message))
                return &pci.bus;
            *error = VIRTIO_NET_NO_REGISTERS;
            log_line("virtio-net: %s: %s", pci.bus.place, virtio_net_error_text(*error));
        }
        if (search.next_bus > search.access->bus_last)
            return NULL;
        pci_scan_bus(search.access, &pci_list, (uint8_t)search.next_bus++);
    }
}

static struct virtio_bus *card_next(enum virtio_net_error *error)
{
    struct virtio_bus *bus = card_next_mmio();
    if (bus == NULL && pci_begin())
        bus = card_next_pci(error);
    if (bus != NULL)
        memcpy(search.place, bus->place, sizeof search.place);
    return bus;
}

/* ---- the others ---- */

/* Adds the places that were not tried; does not drive them. */
static void others_of_mmio(void)
{
    static struct virtio_mmio other;
    struct mmio_places places = search.places;
    struct virtio_mmio_word word;
    while (mmio_next(&places, &word))
        if (virtio_mmio_open(&other, &word, VIRTIO_DEVICE_NET) && strcmp(other.bus.place, search.place) != 0) {
            others_add(other.bus.place);
            search.cards_left++;
        }
}

/* Adds the functions found so far: virtio's that were not tried, and all others that call themselves Ethernet
 * controllers. */
static void others_of_pci(void)
{
    ASSERT(search.next_function <= pci_list.count);
    char name[32];
    for (size_t i = 0; i < pci_list.count; i++) {
        const struct pci_function *function = &pci_list.function[i];
        bool is_card = virtio_pci_is_net(function);
        if (is_card ? i < search.next_function : function->class_code >> 8 != PCI_CLASS_ETHERNET)
            continue;
        pci_function_name(function, name, sizeof name);
        others_add(name);
        search.cards_left += is_card;
    }
}

/* ---- the choice ---- */

static bool is_wanted(struct virtio_bus *bus)
{
    uint8_t mac[NETDEV_MAC_BYTES];
    char text[sizeof bus->place + 20];
    if (search.wish.mac == NULL)
        return true;
    bool known = virtio_net_peek_mac(bus, mac);
    if (known && memcmp(mac, search.wish.mac, sizeof mac) == 0)
        return true;
    if (known)
        format(text, sizeof text, "%s " MAC_FORMAT, bus->place, MAC_BYTES(mac));
    others_add(known ? text : bus->place);
    return false;
}

/* Goes on with the search until a card comes up. */
static enum virtio_net_error find_on(void)
{
    enum virtio_net_error error = search.wish.mac == NULL ? VIRTIO_NET_NO_DEVICE : VIRTIO_NET_NO_SUCH_CARD;
    struct virtio_bus *bus;
    while (error != VIRTIO_NET_OK && (bus = card_next(&error)) != NULL)
        if (is_wanted(bus))
            error = start(bus);
    if (error != VIRTIO_NET_OK && search.access != NULL)
        pci_print(search.access, &pci_list);
    else if (error != VIRTIO_NET_OK)
        log_line("pci: none");
    search.cards_left = 0;
    others_of_mmio();
    if (pci_begin())
        others_of_pci();
    if (search.wish.mac != NULL)
        search.cards_left = 0;
    if (error == VIRTIO_NET_NO_SUCH_CARD)
        log_line("virtio-net: nic=" MAC_FORMAT " is no virtio card of this machine; it has:%s",
                 MAC_BYTES(search.wish.mac), others.bytes != 0 ? others.text : " none");
    else if (others.bytes != 0)
        log_line("virtio-net: other network devices, left alone:%s", others.text);
    others.bytes = 0;
    if (error == VIRTIO_NET_OK)
        virtio_net_check(&net);
    return error;
}

enum virtio_net_error virtio_net_find(struct netdev **device, const struct virtio_net_wish *wish)
{
    ASSERT(wish->words != NULL);
    search.wish = *wish;
    search.places.settings = wish->words;
    *device = &net.device;
    return find_on();
}

size_t virtio_net_cards_left(void) { return search.cards_left; }

enum virtio_net_error virtio_net_find_next(void)
{
    ASSERT(search.cards_left != 0);
    net.bus->ops->status_write(net.bus, 0); /* virtio 1.2 §2.1.2: it touches its rings no more */
    return find_on();
}
