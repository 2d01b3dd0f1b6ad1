/* Finds the network card of this machine: the one place where registers, PCI and the drivers meet.
 *
 * The cards have an order: places that the settings name, places of the ACPI tables, then PCI. card_next opens one
 * after the other, of any kind. The first that comes up is used, or the one with the address of nic=. */
#include "drivers/nic/nic.h"

#include <string.h>

#include "base/assert.h"
#include "base/format.h"
#include "base/hot_section.h"
#include "base/log.h"
#include "drivers/gve/gve.h"
#include "drivers/gve/pci.h"
#include "drivers/pci/spec.h"
#include "drivers/virtio/mmio.h"
#include "drivers/virtio/net.h"
#include "drivers/virtio/pci.h"
#include "kernel/cpu/hypervisor.h"
#include "kernel/firmware/acpi.h"

/* A kind of card. The functions act on the newest card of the search, which is the used one after it. */
struct nic_kind {
    const char *name; /* in the log */
    const char *(*place)(void);
    bool (*peek_mac)(uint8_t mac[NETDEV_MAC_BYTES]);
    /* Brings the card up and writes what it is, or its name and what it lacks. Returns NULL, or why it fails. */
    const char *(*start)(char *text, size_t text_bytes);
    void (*stop)(void);
    const char *(*broken)(const struct netdev *device);
    bool (*can_wake)(const struct netdev *device);
    bool (*wake)(struct netdev *device);
    void (*quiet)(struct netdev *device);
    bool (*frame_waits)(const struct netdev *device);
    void (*notify)(struct netdev *device);
    void (*levels)(struct netdev *device, struct buffer_levels *levels);
    const uint64_t *rx_frames, *tx_stalled_seconds;
    const struct counter_group *counters;
};

/* The used card. One kind replaces another at the same address, which the stack knows. */
static union {
    struct netdev device;
    struct virtio_net virtio;
    struct gve gve;
} card;
static const struct nic_kind *used;

static const char *behind(void) { return acpi_iommu() != NULL ? acpi_iommu() : hypervisor_memory_encryption(); }

/* ---- virtio ---- */

static struct virtio_bus *virtio_bus;

static const char *virtio_place(void) { return virtio_bus->place; }

static bool virtio_peek_mac(uint8_t mac[NETDEV_MAC_BYTES]) { return virtio_net_peek_mac(virtio_bus, mac); }

static const char *virtio_start(char *text, size_t text_bytes)
{
    virtio_bus->behind = behind();
    enum virtio_net_error error = virtio_net_init(&card.virtio, virtio_bus);
    if (error == VIRTIO_NET_OK) {
        virtio_net_describe(&card.virtio, text, text_bytes);
        virtio_net_check(&card.virtio);
        return NULL;
    }
    bool says_behind = error == VIRTIO_NET_NEEDS_PLATFORM;
    format(text, text_bytes, "%s, %s: %s%s%s", virtio_bus->place, virtio_bus->name, virtio_net_error_text(error),
           says_behind ? ": " : "", says_behind ? virtio_bus->behind : "");
    return virtio_net_error_text(error);
}

/* virtio 1.2 §2.1.2: after a reset the device touches its rings no more. */
static void virtio_stop(void) { virtio_bus->ops->status_write(virtio_bus, 0); }

static const struct nic_kind virtio_kind = {
    .name = "virtio-net",
    .place = virtio_place,
    .peek_mac = virtio_peek_mac,
    .start = virtio_start,
    .stop = virtio_stop,
    .broken = virtio_net_broken,
    .can_wake = virtio_net_can_wake,
    .wake = virtio_net_wake,
    .quiet = virtio_net_quiet,
    .frame_waits = virtio_net_frame_waits,
    .notify = virtio_net_notify,
    .levels = virtio_net_levels,
    .rx_frames = &virtio_net_counters.rx_frames,
    .tx_stalled_seconds = &virtio_net_counters.tx_stalled_seconds,
    .counters = &virtio_net_counter_group,
};

/* ---- gVNIC ---- */

static _Alignas(HOT_LINE_BYTES) struct gve_pci gve_pci; /* gve.c fetches its lines */

static const char *gve_place(void) { return gve_pci.bus.place; }

static bool gve_peek(uint8_t mac[NETDEV_MAC_BYTES]) { return gve_peek_mac(&gve_pci.bus, mac); }

static const char *gve_start(char *text, size_t text_bytes)
{
    gve_pci.bus.behind = behind();
    const char *error = gve_init(&card.gve, &gve_pci.bus);
    if (error == NULL) {
        gve_describe(&card.gve, text, text_bytes);
        gve_check(&card.gve);
    } else {
        format(text, text_bytes, "%s: %s", gve_pci.bus.place, error);
    }
    return error;
}

static void gve_halt(void) { gve_stop(&card.gve); }

static const struct nic_kind gve_kind = {
    .name = "gve",
    .place = gve_place,
    .peek_mac = gve_peek,
    .start = gve_start,
    .stop = gve_halt,
    .broken = gve_broken,
    .can_wake = gve_can_wake,
    .wake = gve_wake,
    .quiet = gve_quiet,
    .frame_waits = gve_frame_waits,
    .notify = gve_notify,
    .levels = gve_levels,
    .rx_frames = &gve_counters.rx_frames,
    .tx_stalled_seconds = &gve_counters.tx_stalled_seconds,
    .counters = &gve_counter_group,
};

/* ---- the search ---- */

static struct pci_list pci_list;

/* Places that the settings name, then those of the ACPI tables. */
struct mmio_places {
    const struct machine_virtio_mmio *settings;
    uint32_t next_word; /* into the settings */
    size_t next_node;   /* into the ACPI tables */
};

enum { NIC_PLACE_BYTES = sizeof((struct virtio_bus *)0)->place };

#define MAC_FORMAT     "%02x:%02x:%02x:%02x:%02x:%02x"
#define MAC_BYTES(mac) (mac)[0], (mac)[1], (mac)[2], (mac)[3], (mac)[4], (mac)[5]

/* The progress of the search. */
static struct {
    struct nic_wish wish;
    struct mmio_places places;
    char place[NIC_PLACE_BYTES];     /* the newest card's: one place may be named twice */
    const struct pci_access *access; /* NULL: PCI's turn has not come, or there is none */
    unsigned next_bus;
    size_t next_function; /* into pci_list */
    size_t cards_left;    /* cards that follow the used one */
    bool has_virtio, has_gve;
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

static const struct nic_kind *card_next_mmio(void)
{
    static struct virtio_mmio mmio;
    struct virtio_mmio_word word;
    while (mmio_next(&search.places, &word))
        if (virtio_mmio_open(&mmio, &word, VIRTIO_DEVICE_NET) && strcmp(mmio.bus.place, search.place) != 0) {
            virtio_bus = &mmio.bus;
            return &virtio_kind;
        }
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

static const struct nic_kind *kind_of(const struct pci_function *function)
{
    return virtio_pci_is_net(function) ? &virtio_kind : gve_pci_is(function) ? &gve_kind : NULL;
}

static bool open(const struct nic_kind *kind, const struct pci_function *function)
{
    static struct virtio_pci virtio_pci;
    if (kind == &gve_kind)
        return gve_pci_open(&gve_pci, search.access, function, search.wish.message);
    virtio_bus = &virtio_pci.bus;
    return virtio_pci_open(&virtio_pci, search.access, function, search.wish.message);
}

/* Opens the next function that is a card; `*error` changes if one cannot be opened. A second host bridge has buses that
 * no bridge of the first leads to. They are asked for last: it takes thousands of exits. */
static const struct nic_kind *card_next_pci(const char **error)
{
    ASSERT(search.access != NULL);
    for (;;) {
        while (search.next_function < pci_list.count) {
            const struct pci_function *function = &pci_list.function[search.next_function++];
            const struct nic_kind *kind = kind_of(function);
            if (kind == NULL)
                continue;
            pci_assign(search.access, &pci_list, function);
            if (open(kind, function))
                return kind;
            *error = "the network device's registers cannot be reached";
            log_line("%s: %s: %s", kind->name, kind->place(), *error);
        }
        if (search.next_bus > search.access->bus_last)
            return NULL;
        pci_scan_bus(search.access, &pci_list, (uint8_t)search.next_bus++);
    }
}

static const struct nic_kind *card_next(const char **error)
{
    const struct nic_kind *kind = card_next_mmio();
    if (kind == NULL && pci_begin())
        kind = card_next_pci(error);
    if (kind != NULL) {
        format(search.place, sizeof search.place, "%s", kind->place());
        search.has_virtio |= kind == &virtio_kind;
        search.has_gve |= kind == &gve_kind;
    }
    return kind;
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
            search.has_virtio = true;
        }
}

/* Adds the functions found so far: cards that were not tried, and all others that call themselves Ethernet
 * controllers. */
static void others_of_pci(void)
{
    ASSERT(search.next_function <= pci_list.count);
    char name[32];
    for (size_t i = 0; i < pci_list.count; i++) {
        const struct pci_function *function = &pci_list.function[i];
        const struct nic_kind *kind = kind_of(function);
        const bool is_card = kind != NULL;
        if (is_card ? i < search.next_function : function->class_code >> 8 != PCI_CLASS_ETHERNET)
            continue;
        pci_function_name(function, name, sizeof name);
        others_add(name);
        search.cards_left += is_card;
        search.has_virtio |= kind == &virtio_kind;
        search.has_gve |= kind == &gve_kind;
    }
}

/* ---- the choice ---- */

static bool is_wanted(const struct nic_kind *kind)
{
    uint8_t mac[NETDEV_MAC_BYTES];
    char text[NIC_PLACE_BYTES + 20];
    if (search.wish.mac == NULL)
        return true;
    bool known = kind->peek_mac(mac);
    if (known && memcmp(mac, search.wish.mac, sizeof mac) == 0)
        return true;
    if (known)
        format(text, sizeof text, "%s " MAC_FORMAT, kind->place(), MAC_BYTES(mac));
    others_add(known ? text : kind->place());
    return false;
}

static const char *start(const struct nic_kind *kind)
{
    char text[LOG_LINE_BYTES_MAX];
    const char *error = kind->start(text, sizeof text);
    log_line("%s: %s", kind->name, text);
    if (error == NULL)
        used = kind;
    return error;
}

/* Goes on with the search until a card comes up. */
static const char *find_on(void)
{
    static const char no_such_card[] = "no network device with a driver here has the address that nic= names";
    const char *error = search.wish.mac == NULL ? "no virtio network device and no gVNIC" : no_such_card;
    const struct nic_kind *kind;
    while (error != NULL && (kind = card_next(&error)) != NULL)
        if (is_wanted(kind))
            error = start(kind);
    if (error != NULL && search.access != NULL)
        pci_print(search.access, &pci_list);
    else if (error != NULL)
        log_line("pci: none");
    search.cards_left = 0;
    others_of_mmio();
    if (pci_begin())
        others_of_pci();
    if (search.wish.mac != NULL)
        search.cards_left = 0;
    if (error == no_such_card)
        log_line("network: nic=" MAC_FORMAT " is no virtio card or gVNIC of this machine; it has:%s",
                 MAC_BYTES(search.wish.mac), others.bytes != 0 ? others.text : " none");
    else if (others.bytes != 0)
        log_line("network: other network devices, left alone:%s", others.text);
    others.bytes = 0;
    return error;
}

const char *nic_find(struct netdev **device, const struct nic_wish *wish)
{
    ASSERT(wish->words != NULL);
    search.wish = *wish;
    search.places.settings = wish->words;
    *device = &card.device;
    return find_on();
}

size_t nic_cards_left(void) { return search.cards_left; }

const char *nic_find_next(void)
{
    ASSERT(search.cards_left != 0);
    used->stop();
    return find_on();
}

#define LEVELS(X) X(LEVEL, rx_buffers_free), X(LEVEL, tx_buffers_free) /* struct buffer_levels */
static struct buffer_levels buffer_levels;
static const struct counter_group level_group = COUNTER_GROUP("pool.", "Level of a pool", LEVELS, buffer_levels);

const struct counter_group *nic_counter_group(size_t index)
{
    const struct counter_group *groups[] = { search.has_virtio ? virtio_kind.counters : NULL,
                                             search.has_gve ? gve_kind.counters : NULL, &level_group };
    for (size_t i = 0; i < ARRAY_COUNT(groups); i++)
        if (groups[i] != NULL && index-- == 0)
            return groups[i];
    return NULL;
}

/* ---- the used card ---- */

const char *nic_broken(void) { return used->broken(&card.device); }

bool nic_can_wake(void) { return used->can_wake(&card.device); }

bool nic_wake(void) { return used->wake(&card.device); }

void nic_quiet(void) { used->quiet(&card.device); }

bool nic_frame_waits(void) { return used->frame_waits(&card.device); }

void nic_notify(void) { used->notify(&card.device); }

uint64_t nic_levels(void)
{
    used->levels(&card.device, &buffer_levels);
    return *used->tx_stalled_seconds;
}

const uint64_t *nic_rx_frames(void) { return used->rx_frames; }
