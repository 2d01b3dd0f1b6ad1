/* ARP. RFC 826; RFC 1122 §2.3.2; RFC 5227 §2.4 and §3 for announcements. */
#include "net/arp.h"

#include "net/arp_wire.h"
#include "net/stack_state.h"
#include "net/tcp_internal.h"

static const uint8_t everyone[NETDEV_MAC_BYTES] = { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff };
static const uint8_t nobody[NETDEV_MAC_BYTES];

static struct arp_entry *arp_find(struct arp *arp, uint32_t address)
{
    for (size_t i = 0; i < ARP_ENTRY_COUNT; i++)
        if (arp->entries[i].state != ARP_FREE && arp->entries[i].address == address)
            return &arp->entries[i];
    return NULL;
}

/* Whether an entry must stay, whoever else wants its place: a gateway's, or one under an open connection (which copies
 * the address into its frames and looks nothing up). */
static bool arp_is_needed(const struct net_stack *stack, const struct arp_entry *entry)
{
    const struct ipv4_interface *interface = &stack->interface;
    for (uint32_t i = 0; i < interface->route_count; i++)
        if (interface->routes[i].gateway == entry->address)
            return true;
    return entry->state == ARP_STATIC || tcp_neighbour_in_use(stack, entry->address);
}

/* Whether it must be kept fresh. */
static bool arp_in_use(const struct net_stack *stack, const struct arp_entry *entry, uint64_t now_ns)
{
    return now_ns - entry->used_ns < ARP_FRESH_NS || arp_is_needed(stack, entry);
}

/* Lets go what waited for this neighbour; `mac` NULL: there is no answer. */
static void arp_release_held(struct net_stack *stack, uint32_t next_hop, const uint8_t *mac)
{
    struct arp *arp = &stack->arp;
    uint32_t kept_count = 0;
    for (uint32_t i = 0; i < arp->held_count; i++) {
        struct arp_held held = arp->held[i];
        if (held.next_hop != next_hop) {
            arp->held[kept_count++] = held;
        } else if (mac != NULL) {
            memcpy(held.buffer->data, mac, NETDEV_MAC_BYTES);
            net_frame_publish(stack, held.buffer, held.bytes, 0, 0);
        } else {
            NET_COUNT(stack, arp_tx_drop_unanswered);
            stack->device->ops->tx_release(stack->device, held.buffer);
        }
    }
    arp->held_count = kept_count;
}

/* An entry for a new neighbour: a free one, else the least recently used that nobody needs. Only for one that is `here`
 * does a question make room that has no answer yet: else whoever has us ask for many could keep everybody out. NULL:
 * there is none. */
static struct arp_entry *arp_take(struct net_stack *stack, uint32_t address, bool here, uint64_t now_ns)
{
    struct arp_entry *best = NULL;
    for (size_t i = 0; i < ARP_ENTRY_COUNT; i++) {
        struct arp_entry *entry = &stack->arp.entries[i];
        if (entry->state == ARP_FREE) {
            best = entry;
            break;
        }
        bool asking = entry->state == ARP_ASKING, best_asking = best != NULL && best->state == ARP_ASKING;
        if ((asking && !here) || arp_is_needed(stack, entry))
            continue;
        if (best == NULL || (best_asking && !asking) || (best_asking == asking && entry->used_ns < best->used_ns))
            best = entry;
    }
    if (best == NULL) {
        NET_COUNT(stack, arp_table_full);
        return NULL;
    }
    if (best->state == ARP_ASKING)
        arp_release_held(stack, best->address, NULL);
    *best = (struct arp_entry){ .address = address, .used_ns = now_ns };
    return best;
}

static void arp_transmit(struct net_stack *stack, uint16_t operation, const uint8_t destination[NETDEV_MAC_BYTES],
                         const uint8_t target_mac[NETDEV_MAC_BYTES], uint32_t target_address)
{
    struct tx_buffer *buffer = ipv4_output_begin(stack);
    if (buffer == NULL)
        return;
    struct ethernet_wire *ethernet = (struct ethernet_wire *)buffer->data;
    struct arp_wire *arp = (struct arp_wire *)(ethernet + 1);
    memcpy(ethernet->destination, destination, NETDEV_MAC_BYTES);
    memcpy(ethernet->source, stack->device->mac, NETDEV_MAC_BYTES);
    store_be16(&ethernet->type, ETHERNET_TYPE_ARP);
    store_be16(&arp->hardware_type, ARP_HARDWARE_ETHERNET);
    store_be16(&arp->protocol_type, ETHERNET_TYPE_IPV4);
    arp->hardware_bytes = NETDEV_MAC_BYTES;
    arp->protocol_bytes = 4;
    store_be16(&arp->operation, operation);
    memcpy(arp->sender_mac, stack->device->mac, NETDEV_MAC_BYTES);
    store_be32(&arp->sender_address, stack->interface.address);
    memcpy(arp->target_mac, target_mac, NETDEV_MAC_BYTES);
    store_be32(&arp->target_address, target_address);
    net_frame_publish(stack, buffer, sizeof *ethernet + sizeof *arp, 0, 0);
}

/* Asks a neighbour, directly if its address is known. */
static void arp_ask(struct net_stack *stack, struct arp_entry *entry, uint64_t now_ns)
{
    entry->request_count++;
    entry->next_request_ns = now_ns + ARP_REQUEST_INTERVAL_NS;
    NET_COUNT(stack, arp_tx_requests);
    /* RFC 1122 §2.3.2.1 (2): a unicast poll. The last of them asks everyone: the neighbour may have moved. */
    bool direct = entry->state == ARP_KNOWN && entry->request_count < ARP_REQUEST_COUNT_MAX;
    arp_transmit(stack, ARP_OPERATION_REQUEST, direct ? entry->mac : everyone, nobody, entry->address);
}

static void arp_confirm(struct net_stack *stack, struct arp_entry *entry, const uint8_t mac[NETDEV_MAC_BYTES],
                        uint64_t now_ns)
{
    bool changed = entry->state != ARP_KNOWN || memcmp(entry->mac, mac, NETDEV_MAC_BYTES) != 0;
    if (changed && entry->state == ARP_KNOWN)
        NET_COUNT(stack, arp_address_changed);
    memcpy(entry->mac, mac, NETDEV_MAC_BYTES);
    entry->state = ARP_KNOWN;
    entry->request_count = 0;
    entry->confirmed_ns = now_ns;
    entry->next_request_ns = now_ns + ARP_FRESH_NS;
    if (changed) {
        tcp_neighbour_changed(stack, entry->address, mac);
        arp_release_held(stack, entry->address, mac);
    }
}

void arp_set_static(struct net_stack *stack, uint32_t address, const uint8_t mac[NETDEV_MAC_BYTES], uint64_t now_ns)
{
    struct arp_entry *entry = arp_find(&stack->arp, address);
    if (entry == NULL)
        entry = arp_take(stack, address, true, now_ns);
    ASSERT(entry != NULL);
    entry->state = ARP_STATIC;
    memcpy(entry->mac, mac, NETDEV_MAC_BYTES);
}

/* RFC 826, "Packet Reception". */
void arp_input(struct net_stack *stack, const uint8_t *data, uint32_t bytes, uint64_t now_ns)
{
    const struct arp_wire *arp = (const struct arp_wire *)data;
    if (bytes < sizeof *arp || load_be16(&arp->hardware_type) != ARP_HARDWARE_ETHERNET
        || load_be16(&arp->protocol_type) != ETHERNET_TYPE_IPV4 || arp->hardware_bytes != NETDEV_MAC_BYTES
        || arp->protocol_bytes != 4 || (arp->sender_mac[0] & ETHERNET_GROUP_BIT_MASK) != 0) {
        NET_COUNT(stack, arp_rx_drop_malformed);
        return;
    }
    uint16_t operation = load_be16(&arp->operation);
    uint32_t sender = load_be32(&arp->sender_address);
    bool for_us = stack->interface.up && load_be32(&arp->target_address) == stack->interface.address;
    if (operation == ARP_OPERATION_REQUEST) {
        NET_COUNT(stack, arp_rx_requests);
    } else if (operation == ARP_OPERATION_REPLY) {
        NET_COUNT(stack, arp_rx_replies);
    } else {
        NET_COUNT(stack, arp_rx_drop_malformed);
        return;
    }
    if (stack->interface.up && sender == stack->interface.address) {
        NET_COUNT(stack, arp_rx_drop_own_address);      /* somebody else claims it, or our own frame came back */
        if (memcmp(arp->sender_mac, stack->device->mac, NETDEV_MAC_BYTES) != 0 && now_ns >= stack->arp.defend_ns) {
            stack->arp.defend_ns = now_ns + ARP_DEFEND_INTERVAL_NS;
            arp_announce(stack);        /* RFC 5227 §2.4 (c): the others shall not believe it */
        }
        return;
    }

    /* Merge: what we know already is brought up to date by anyone's packet; what is new only from a request to us,
     * since we are about to answer it. An answer nobody asked for teaches nothing. */
    bool sender_usable = ipv4_address_is_unicast(sender) && !ipv4_is_broadcast(stack, sender);
    struct arp_entry *entry = sender_usable ? arp_find(&stack->arp, sender) : NULL;
    if (entry == NULL && sender_usable && for_us && operation == ARP_OPERATION_REQUEST)
        entry = arp_take(stack, sender, true, now_ns);
    if (entry == NULL && operation == ARP_OPERATION_REPLY)
        NET_COUNT(stack, arp_rx_drop_unasked);
    if (entry != NULL && entry->state != ARP_STATIC)
        arp_confirm(stack, entry, arp->sender_mac, now_ns);

    if (for_us && operation == ARP_OPERATION_REQUEST) {
        NET_COUNT(stack, arp_tx_replies);
        arp_transmit(stack, ARP_OPERATION_REPLY, arp->sender_mac, arp->sender_mac, sender);
    }
}

static const uint8_t *arp_lookup_entry(struct net_stack *stack, uint32_t next_hop, uint64_t now_ns,
                                       struct arp_entry **found)
{
    struct arp_entry *entry = arp_find(&stack->arp, next_hop);
    if (entry == NULL) {
        entry = arp_take(stack, next_hop, false, now_ns);
        if (entry != NULL)
            entry->state = ARP_ASKING;
    } else if (entry->state == ARP_FAILED && now_ns >= entry->next_request_ns) {
        entry->state = ARP_ASKING;
        entry->request_count = 0;
    }
    *found = entry;
    if (entry == NULL)
        return NULL;
    entry->used_ns = now_ns;
    if (entry->state == ARP_KNOWN || entry->state == ARP_STATIC)
        return entry->mac;
    if (entry->state == ARP_ASKING && entry->request_count == 0)
        arp_ask(stack, entry, now_ns);
    return NULL;
}

const uint8_t *arp_lookup(struct net_stack *stack, uint32_t next_hop, uint64_t now_ns)
{
    struct arp_entry *entry;
    return arp_lookup_entry(stack, next_hop, now_ns, &entry);
}

bool arp_send(struct net_stack *stack, struct tx_buffer *buffer, uint32_t bytes, uint32_t next_hop, uint64_t now_ns)
{
    struct arp *arp = &stack->arp;
    struct arp_entry *entry;
    const uint8_t *mac = arp_lookup_entry(stack, next_hop, now_ns, &entry);
    if (mac != NULL) {
        memcpy(buffer->data, mac, NETDEV_MAC_BYTES);
        return net_frame_publish(stack, buffer, bytes, 0, 0);
    }
    if (entry == NULL || entry->state == ARP_FAILED || arp->held_count == ARP_HELD_COUNT_MAX) {
        if (entry != NULL && entry->state == ARP_FAILED)
            NET_COUNT(stack, arp_tx_drop_unanswered);
        else
            NET_COUNT(stack, arp_tx_drop_held_full);
        stack->device->ops->tx_release(stack->device, buffer);
        return false;
    }
    arp->held[arp->held_count++] = (struct arp_held){ buffer, bytes, next_hop };
    return true;
}

void arp_doubt(struct net_stack *stack, uint32_t next_hop, uint64_t now_ns)
{
    struct arp_entry *entry = arp_find(&stack->arp, next_hop);
    if (entry != NULL && entry->state == ARP_KNOWN && entry->request_count == 0
        && now_ns >= entry->confirmed_ns + ARP_REQUEST_INTERVAL_NS)
        arp_ask(stack, entry, now_ns);
}

void arp_announce(struct net_stack *stack)
{
    NET_COUNT(stack, arp_tx_requests);
    arp_transmit(stack, ARP_OPERATION_REQUEST, everyone, nobody, stack->interface.address);
}

void arp_flush(struct net_stack *stack)
{
    for (size_t i = 0; i < ARP_ENTRY_COUNT; i++) {
        struct arp_entry *entry = &stack->arp.entries[i];
        if (entry->state == ARP_FREE || entry->state == ARP_STATIC)
            continue;
        arp_release_held(stack, entry->address, NULL);
        entry->state = ARP_FREE;
    }
}

void arp_tend(struct net_stack *stack, uint64_t now_ns)
{
    for (size_t i = 0; i < ARP_ENTRY_COUNT; i++) {
        struct arp_entry *entry = &stack->arp.entries[i];
        if ((entry->state != ARP_ASKING && entry->state != ARP_KNOWN) || now_ns < entry->next_request_ns)
            continue;
        if (entry->request_count >= ARP_REQUEST_COUNT_MAX) {
            /* No answer. A neighbour that was known is used on, and asked again later: some gateways forward but do
             * not answer polls, and a wrong guess costs nothing but packets. */
            if (entry->state == ARP_KNOWN) {
                entry->request_count = 0;
                entry->next_request_ns = now_ns + ARP_FRESH_NS;
                continue;
            }
            entry->state = ARP_FAILED;
            entry->next_request_ns = now_ns + ARP_REQUEST_INTERVAL_NS;
            arp_release_held(stack, entry->address, NULL);
            tcp_neighbour_failed(stack, entry->address, now_ns);
        } else if (entry->state == ARP_ASKING || entry->request_count != 0 || arp_in_use(stack, entry, now_ns)) {
            arp_ask(stack, entry, now_ns);
        } else {
            entry->next_request_ns = now_ns + ARP_FRESH_NS;     /* not in use: let it be */
        }
    }
}

uint64_t arp_wake_ns(const struct net_stack *stack)
{
    uint64_t wake_ns = UINT64_MAX;
    for (size_t i = 0; i < ARP_ENTRY_COUNT; i++) {
        const struct arp_entry *entry = &stack->arp.entries[i];
        if ((entry->state == ARP_ASKING || entry->state == ARP_KNOWN) && entry->next_request_ns < wake_ns)
            wake_ns = entry->next_request_ns;
    }
    return wake_ns;
}
