/* ARP. RFC 826; RFC 1122 §2.3.2; RFC 5227 §2.4 and §3 for announcements. */
#include "net/ip/arp.h"

#include "base/log.h"
#include "net/ip/arp_wire.h"
#include "net/ip/ip.h"

static const uint8_t everyone[NETDEV_MAC_BYTES] = { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff };
static const uint8_t nobody[NETDEV_MAC_BYTES];

/* ---- The table ---- */

static bool has_mac(const struct arp_entry *entry) { return entry->state == ARP_KNOWN; }

/* Returns true for the known neighbour of a point-to-point device, whom nobody asks. */
static bool is_fixed(const struct net_ip *ip, const struct arp_entry *entry)
{
    return ip->device->point_to_point && has_mac(entry);
}

void arp_init(struct net_ip *ip, struct arp_entry *entries, uint32_t count)
{
    ASSERT(count != 0 && count < UINT16_MAX);
    memset(entries, 0, count * sizeof *entries);
    ip->arp = (struct arp){ .entries = entries, .entry_count = count, .due_ns = UINT64_MAX };
}

/* Returns an address's chain by Fibonacci hashing: the product's high bits depend on the low ones, in which neighbours
 * differ. */
static uint32_t chain_of(uint32_t address)
{
    const uint32_t multiplier = 0x9e3779b1; /* 2^32 divided by the golden ratio */
    return address * multiplier >> 26;
}
static_assert(ARP_CHAIN_COUNT == 1 << (32 - 26), "chain_of");

static const struct arp_entry *arp_peek(const struct net_ip *ip, uint32_t address)
{
    for (uint32_t at = ip->arp.chains[chain_of(address)]; at != 0; at = ip->arp.entries[at - 1].next)
        if (ip->arp.entries[at - 1].address == address)
            return &ip->arp.entries[at - 1];
    return NULL;
}

static struct arp_entry *arp_find(struct net_ip *ip, uint32_t address)
{
    const struct arp_entry *entry = arp_peek(ip, address);
    return entry != NULL ? &ip->arp.entries[entry - ip->arp.entries] : NULL;
}

const uint8_t *arp_known(const struct net_ip *ip, uint32_t next_hop)
{
    const struct arp_entry *entry = arp_peek(ip, next_hop);
    return entry != NULL && has_mac(entry) ? entry->mac : NULL;
}

/* Returns true if an initiated packet has gone there not long ago. */
static bool is_kept(const struct arp_entry *entry, uint64_t now_ns)
{
    return entry->initiated && now_ns - entry->initiated_ns < ARP_KEPT_NS;
}

bool arp_is_chosen(const struct net_ip *ip, uint32_t next_hop, uint64_t now_ns)
{
    const struct arp_entry *entry = arp_peek(ip, next_hop);
    return entry != NULL && is_kept(entry, now_ns);
}

bool arp_has_failed(const struct net_ip *ip, uint32_t next_hop)
{
    const struct arp_entry *entry = arp_peek(ip, next_hop);
    return entry != NULL && entry->state == ARP_FAILED;
}

/* Asserts what holds of an entry between two calls. */
static void check_entry(const struct net_ip *ip, const struct arp_entry *entry)
{
    ASSERT(entry->state <= ARP_FAILED);
    ASSERT(arp_peek(ip, entry->address) == entry); /* one entry a neighbour, in its chain */
    ASSERT(entry->address != 0);
    ASSERT(entry->request_count <= ARP_REQUEST_COUNT_MAX);
    /* A group's address would send the game to everyone. */
    ASSERT(entry->state != ARP_KNOWN || (entry->mac[0] & ETHERNET_GROUP_BIT_MASK) == 0);
    /* A question without an answer ends, and a known neighbour is asked again. */
    ASSERT(is_fixed(ip, entry) || entry->next_request_ns != UINT64_MAX);
}

/* Returns true if an entry must stay, whoever wants its place: a gateway's, or one under a connection. */
static bool is_needed(const struct net_ip *ip, const struct arp_entry *entry)
{
    const struct ipv4_interface *interface = &ip->interface;
    ASSERT(interface->route_count <= IPV4_ROUTE_COUNT_MAX);
    if (entry->connection_count != 0)
        return true;
    for (uint32_t i = 0; i < interface->route_count; i++)
        if (interface->routes[i].gateway == entry->address)
            return true;
    return false;
}

static bool is_in_use(const struct net_ip *ip, const struct arp_entry *entry, uint64_t now_ns)
{
    return now_ns - entry->used_ns < ARP_FRESH_NS || is_needed(ip, entry);
}

static void entry_used(struct arp_entry *entry, bool initiated, uint64_t now_ns)
{
    entry->used_ns = now_ns;
    if (initiated || is_kept(entry, now_ns)) {
        entry->initiated = true;
        entry->initiated_ns = now_ns;
    }
}

/* Sends the frames that waited for this neighbour, or drops them if `mac` is NULL. */
static void held_release(struct net_ip *ip, uint32_t next_hop, const uint8_t *mac)
{
    struct arp *arp = &ip->arp;
    uint32_t kept_count = 0;
    for (uint32_t i = 0; i < arp->held_count; i++) {
        struct arp_held held = arp->held[i];
        if (held.next_hop != next_hop) {
            arp->held[kept_count++] = held;
        } else if (mac != NULL) {
            memcpy(held.buffer->data, mac, NETDEV_MAC_BYTES);
            ethernet_send(ip, held.buffer, held.bytes, 0, 0);
        } else {
            IP_COUNT(ip, arp_tx_drop_unanswered);
            ip->device->ops->tx_release(ip->device, held.buffer);
        }
    }
    ASSERT(kept_count <= arp->held_count);
    arp->held_count = kept_count;
}

/* A new neighbour, by its right to a place in a full table. A stranger may not exist at all. Strangers displace no
 * entry that is asking: a flood of strangers would otherwise keep all other neighbours out. */
enum newcomer {
    NEWCOMER_STRANGER, /* receives an answer from us */
    NEWCOMER_SENDER,   /* has sent us a packet */
    NEWCOMER_CHOSEN,   /* chosen by us, or by a connection */
};

/* Ranks an entry by who may take its place: 0 goes first. */
enum { RANK_NEVER = 3 };
static unsigned rank_of(const struct net_ip *ip, const struct arp_entry *entry, enum newcomer newcomer, uint64_t now_ns)
{
    bool kept = is_kept(entry, now_ns), asking = entry->state == ARP_ASKING;
    if (is_needed(ip, entry) || (kept && newcomer < NEWCOMER_CHOSEN) || (asking && newcomer < NEWCOMER_SENDER))
        return RANK_NEVER;
    return kept ? 2 : asking ? 1 : 0;
}

/* Returns a free entry, else the least recently used of the lowest rank. NULL: none. */
static struct arp_entry *entry_for_newcomer(struct net_ip *ip, enum newcomer newcomer, uint64_t now_ns)
{
    struct arp_entry *best = NULL;
    unsigned best_rank = RANK_NEVER;
    for (uint32_t i = 0; i < ip->arp.entry_count; i++) {
        struct arp_entry *entry = &ip->arp.entries[i];
        if (entry->state == ARP_FREE)
            return entry;
        if (entry->connection_count != 0)
            continue; /* needed, as most of a server's entries are */
        unsigned rank = rank_of(ip, entry, newcomer, now_ns);
        if (rank < best_rank || (rank == best_rank && best != NULL && entry->used_ns < best->used_ns)) {
            best = entry;
            best_rank = rank;
        }
    }
    return best;
}

/* Makes an entry free: takes it out of its chain. */
static void entry_remove(struct arp *arp, struct arp_entry *entry)
{
    uint16_t *link = &arp->chains[chain_of(entry->address)];
    uint32_t at = *link, wanted = (uint32_t)(entry - arp->entries + 1);
    ASSERT(entry->state != ARP_FREE);
    while (at != 0 && at != wanted) {
        link = &arp->entries[at - 1].next;
        at = *link;
    }
    ASSERT(at == wanted);
    *link = entry->next;
    entry->state = ARP_FREE;
}

/* Sets the time of an entry's next request. */
static void entry_due_at(struct net_ip *ip, struct arp_entry *entry, uint64_t at_ns)
{
    if (is_fixed(ip, entry))
        at_ns = UINT64_MAX;
    entry->next_request_ns = at_ns;
    if (at_ns < ip->arp.due_ns)
        ip->arp.due_ns = at_ns;
}

/* Makes an entry for a new neighbour. NULL: the table has no place. */
static struct arp_entry *arp_take(struct net_ip *ip, uint32_t address, enum newcomer newcomer, uint64_t now_ns)
{
    ASSERT(arp_peek(ip, address) == NULL);
    struct arp_entry *entry = entry_for_newcomer(ip, newcomer, now_ns);
    uint16_t *chain = &ip->arp.chains[chain_of(address)];
    if (entry == NULL) {
        IP_COUNT(ip, arp_table_full);
        return NULL;
    }
    if (entry->state == ARP_ASKING)
        held_release(ip, entry->address, NULL);
    if (entry->state != ARP_FREE)
        entry_remove(&ip->arp, entry);
    *entry = (struct arp_entry){ .state = ARP_ASKING, .address = address, .next = *chain };
    *chain = (uint16_t)(entry - ip->arp.entries + 1);
    entry_due_at(ip, entry, now_ns);
    entry_used(entry, false, now_ns);
    return entry;
}

void arp_connection_add(struct net_ip *ip, uint32_t next_hop, uint64_t now_ns)
{
    struct arp_entry *entry = arp_find(ip, next_hop);
    if (entry == NULL)
        entry = arp_take(ip, next_hop, NEWCOMER_CHOSEN, now_ns);
    ASSERT(entry != NULL); /* ARP_ENTRY_COUNT has a term for each connection */
    entry->connection_count++;
    ASSERT(entry->connection_count != 0);
}

void arp_connection_remove(struct net_ip *ip, uint32_t next_hop)
{
    struct arp_entry *entry = arp_find(ip, next_hop);
    ASSERT(next_hop != 0);
    if (entry != NULL && entry->connection_count != 0) /* arp_flush forgets entries before their connections end */
        entry->connection_count--;
}

uint32_t arp_connection_count(const struct net_ip *ip, uint32_t next_hop)
{
    const struct arp_entry *entry = arp_peek(ip, next_hop);
    return entry != NULL ? entry->connection_count : 0;
}

/* ---- Asking ---- */

static void arp_transmit(struct net_ip *ip, uint16_t operation, const uint8_t destination[NETDEV_MAC_BYTES],
                         const uint8_t target_mac[NETDEV_MAC_BYTES], uint32_t target_address)
{
    ASSERT(operation == ARP_OPERATION_REQUEST || operation == ARP_OPERATION_REPLY);
    struct tx_buffer *buffer = ethernet_send_begin(ip);
    if (buffer == NULL)
        return;
    struct ethernet_wire *ethernet = (struct ethernet_wire *)buffer->data;
    struct arp_wire *arp = (struct arp_wire *)(ethernet + 1);
    memcpy(ethernet->destination, destination, NETDEV_MAC_BYTES);
    memcpy(ethernet->source, ip->device->mac, NETDEV_MAC_BYTES);
    store_be16(&ethernet->type, ETHERNET_TYPE_ARP);
    store_be16(&arp->hardware_type, ARP_HARDWARE_ETHERNET);
    store_be16(&arp->protocol_type, ETHERNET_TYPE_IPV4);
    arp->hardware_bytes = NETDEV_MAC_BYTES;
    arp->protocol_bytes = 4;
    store_be16(&arp->operation, operation);
    memcpy(arp->sender_mac, ip->device->mac, NETDEV_MAC_BYTES);
    store_be32(&arp->sender_address, ip->interface.address);
    memcpy(arp->target_mac, target_mac, NETDEV_MAC_BYTES);
    store_be32(&arp->target_address, target_address);
    ethernet_send(ip, buffer, sizeof *ethernet + sizeof *arp, 0, 0);
}

/* Asks a neighbour. RFC 1122 §2.3.2.1 (2): first by unicast if its address is known, then by broadcast. */
static void arp_ask(struct net_ip *ip, struct arp_entry *entry, uint64_t now_ns)
{
    ASSERT(entry->request_count < ARP_REQUEST_COUNT_MAX);
    bool by_unicast = has_mac(entry) && entry->request_count == 0;
    entry->request_count++;
    entry_due_at(ip, entry, now_ns + ARP_REQUEST_INTERVAL_NS);
    IP_COUNT(ip, arp_tx_requests);
    arp_transmit(ip, ARP_OPERATION_REQUEST, by_unicast ? entry->mac : everyone, nobody, entry->address);
}

static void entry_doubt(struct net_ip *ip, struct arp_entry *entry, uint64_t now_ns)
{
    if (has_mac(entry) && !is_fixed(ip, entry) && entry->request_count == 0
        && now_ns >= entry->confirmed_ns + ARP_REQUEST_INTERVAL_NS)
        arp_ask(ip, entry, now_ns);
}

void arp_doubt(struct net_ip *ip, uint32_t next_hop, uint64_t now_ns)
{
    struct arp_entry *entry = arp_find(ip, next_hop);
    if (entry != NULL)
        entry_doubt(ip, entry, now_ns);
}

void arp_request(struct net_ip *ip, uint32_t address)
{
    IP_COUNT(ip, arp_tx_requests);
    arp_transmit(ip, ARP_OPERATION_REQUEST, everyone, nobody, address);
}

void arp_announce(struct net_ip *ip) { arp_request(ip, ip->interface.address); }

/* ---- Answers ---- */

/* Counts a change that is reported to connections: net/stack.c. */
static void change_note(struct net_ip *ip, const struct arp_entry *entry)
{
    if (entry->connection_count != 0)
        ip->arp.change_count++;
}

/* Enters the address at which a neighbour has answered or spoken. */
static void entry_confirm(struct net_ip *ip, struct arp_entry *entry, const uint8_t mac[NETDEV_MAC_BYTES],
                          uint64_t now_ns)
{
    ASSERT(entry->state != ARP_FREE);
    bool changed = !has_mac(entry) || memcmp(entry->mac, mac, NETDEV_MAC_BYTES) != 0;
    entry->request_count = 0;
    entry->confirmed_ns = now_ns;
    if (changed && has_mac(entry)) {
        IP_COUNT(ip, arp_address_changed);
        if (is_needed(ip, entry))
            log_line("net: %pI4h does not answer at its hardware address; another one answers for it and is used",
                     &entry->address);
    }
    memcpy(entry->mac, mac, NETDEV_MAC_BYTES);
    entry->state = ARP_KNOWN;
    entry_due_at(ip, entry, now_ns + ARP_FRESH_NS);
    if (changed) {
        change_note(ip, entry);
        held_release(ip, entry->address, mac);
    }
}

/* Takes the address that a packet claims for a neighbour. A neighbour in use that seems to have moved is asked at its
 * old address first: one forged packet must not divert the game. Without an answer there, the next claim counts. */
static void entry_claimed(struct net_ip *ip, struct arp_entry *entry, const uint8_t mac[NETDEV_MAC_BYTES],
                          uint64_t now_ns)
{
    ASSERT(entry->state != ARP_FREE);
    enum { REQUESTS_UNTIL_OLD_IS_GONE = 2 }; /* the first, by unicast, went unanswered for a second */
    bool moves = has_mac(entry) && memcmp(entry->mac, mac, NETDEV_MAC_BYTES) != 0;
    if (!moves || !is_in_use(ip, entry, now_ns) || entry->request_count >= REQUESTS_UNTIL_OLD_IS_GONE) {
        entry_confirm(ip, entry, mac, now_ns);
        return;
    }
    IP_COUNT(ip, arp_address_doubted);
    entry_doubt(ip, entry, now_ns);
}

void arp_set_known(struct net_ip *ip, uint32_t address, const uint8_t mac[NETDEV_MAC_BYTES], uint64_t now_ns)
{
    struct arp_entry *entry = arp_find(ip, address);
    if (entry == NULL)
        entry = arp_take(ip, address, NEWCOMER_CHOSEN, now_ns);
    ASSERT(entry != NULL);
    entry->state = ARP_KNOWN;
    entry->request_count = 0;
    entry_due_at(ip, entry, now_ns);
    memcpy(entry->mac, mac, NETDEV_MAC_BYTES);
    change_note(ip, entry);
    held_release(ip, address, mac);
    arp_check(ip);
}

void arp_answered(struct net_ip *ip, uint32_t address, const uint8_t mac[NETDEV_MAC_BYTES], uint64_t now_ns)
{
    if ((mac[0] & ETHERNET_GROUP_BIT_MASK) != 0)
        return;
    struct arp_entry *entry = arp_find(ip, address);
    if (entry == NULL)
        entry = arp_take(ip, address, NEWCOMER_SENDER, now_ns);
    if (entry == NULL)
        return;
    if (!has_mac(entry))
        entry_confirm(ip, entry, mac, now_ns);
    check_entry(ip, entry);
}

static bool arp_is_well_formed(const struct arp_wire *arp, uint32_t bytes)
{
    return bytes >= sizeof *arp && load_be16(&arp->hardware_type) == ARP_HARDWARE_ETHERNET
           && load_be16(&arp->protocol_type) == ETHERNET_TYPE_IPV4 && arp->hardware_bytes == NETDEV_MAC_BYTES
           && arp->protocol_bytes == 4 && (arp->sender_mac[0] & ETHERNET_GROUP_BIT_MASK) == 0
           && (load_be16(&arp->operation) == ARP_OPERATION_REQUEST
               || load_be16(&arp->operation) == ARP_OPERATION_REPLY);
}

/* RFC 5227 §2.4 (c): Announces that an address claimed by another is ours, at most once in ARP_DEFEND_INTERVAL_NS. */
static void own_address_claimed(struct net_ip *ip, const uint8_t mac[NETDEV_MAC_BYTES], uint64_t now_ns)
{
    IP_COUNT(ip, arp_rx_drop_own_address); /* counts our own frames that come back, too */
    if (memcmp(mac, ip->device->mac, NETDEV_MAC_BYTES) == 0 || now_ns < ip->arp.defend_ns)
        return;
    ip->arp.defend_ns = now_ns + ARP_DEFEND_INTERVAL_NS;
    arp_announce(ip);
}

/* RFC 826, "Packet Reception". */
void arp_input(struct net_ip *ip, const uint8_t *data, uint32_t bytes, uint64_t now_ns)
{
    const struct arp_wire *arp = (const struct arp_wire *)data;
    if (!arp_is_well_formed(arp, bytes)) {
        IP_COUNT(ip, arp_rx_drop_malformed);
        return;
    }
    bool request = load_be16(&arp->operation) == ARP_OPERATION_REQUEST;
    uint32_t sender = load_be32(&arp->sender_address);
    bool for_us = ip->interface.up && load_be32(&arp->target_address) == ip->interface.address;
    if (request)
        IP_COUNT(ip, arp_rx_requests);
    else
        IP_COUNT(ip, arp_rx_replies);
    ip->arp.answer_count += for_us && !request;
    if (ip->interface.up && sender == ip->interface.address) {
        own_address_claimed(ip, arp->sender_mac, now_ns);
        return;
    }

    /* Merge: any packet updates a neighbour that is in the table. Only a request to us enters a new one, because our
     * answer and more will go there. An answer that nobody asked for enters nothing. */
    bool sender_usable = ipv4_address_is_unicast(sender) && !ipv4_is_broadcast(ip, sender);
    struct arp_entry *entry = sender_usable ? arp_find(ip, sender) : NULL;
    if (entry == NULL && sender_usable && for_us && request)
        entry = arp_take(ip, sender, NEWCOMER_SENDER, now_ns);
    if (entry != NULL)
        entry_claimed(ip, entry, arp->sender_mac, now_ns);
    else if (!request)
        IP_COUNT(ip, arp_rx_drop_unasked);

    if (for_us && request) {
        IP_COUNT(ip, arp_tx_replies);
        arp_transmit(ip, ARP_OPERATION_REPLY, arp->sender_mac, arp->sender_mac, sender);
    }
    if (entry != NULL)
        check_entry(ip, entry); /* all of them would cost more than the packet: anybody sends these */
    ASSERT(entry == NULL || entry->address == sender);
}

/* ---- Use ---- */

/* Returns the entry of a neighbour that a packet goes to, and asks if need be. NULL: the table has no place. */
static struct arp_entry *entry_for(struct net_ip *ip, uint32_t next_hop, bool initiated, uint64_t now_ns)
{
    struct arp_entry *entry = arp_find(ip, next_hop);
    if (entry == NULL)
        entry = arp_take(ip, next_hop, initiated ? NEWCOMER_CHOSEN : NEWCOMER_STRANGER, now_ns);
    if (entry == NULL)
        return NULL;
    entry_used(entry, initiated, now_ns);
    if (entry->state == ARP_FAILED) {
        entry->state = ARP_ASKING;
        entry->request_count = 0;
        entry_due_at(ip, entry, entry->next_request_ns);
    }
    if (entry->state == ARP_ASKING && entry->request_count == 0 && now_ns >= entry->next_request_ns)
        arp_ask(ip, entry, now_ns);
    ASSERT(entry->address == next_hop);
    ASSERT(entry->state != ARP_FAILED);
    return entry;
}

const uint8_t *arp_lookup(struct net_ip *ip, uint32_t next_hop, bool initiated, uint64_t now_ns)
{
    const struct arp_entry *entry = entry_for(ip, next_hop, initiated, now_ns);
    return entry != NULL && has_mac(entry) ? entry->mac : NULL;
}

/* Returns true if another frame may wait: strangers leave places for the frames that we initiate. */
static bool held_has_room(const struct arp *arp, bool initiated)
{
    uint32_t strangers_count = 0;
    for (uint32_t i = 0; i < arp->held_count; i++)
        strangers_count += !arp->held[i].initiated;
    return arp->held_count < ARP_HELD_COUNT_MAX && (initiated || strangers_count < ARP_HELD_STRANGERS_MAX);
}

bool arp_send(struct net_ip *ip, struct tx_buffer *buffer, uint32_t bytes, uint32_t next_hop, bool initiated,
              uint64_t now_ns)
{
    struct arp *arp = &ip->arp;
    ASSERT((buffer->holders & TX_HELD_BY_STACK) != 0);
    struct arp_entry *entry = entry_for(ip, next_hop, initiated, now_ns);
    if (entry != NULL && has_mac(entry)) {
        memcpy(buffer->data, entry->mac, NETDEV_MAC_BYTES);
        return ethernet_send(ip, buffer, bytes, 0, 0);
    }
    if (entry == NULL || !held_has_room(arp, initiated)) {
        IP_COUNT(ip, arp_tx_drop_held_full);
        ip->device->ops->tx_release(ip->device, buffer);
        return true;
    }
    ASSERT(arp->held_count < ARP_HELD_COUNT_MAX);
    arp->held[arp->held_count++] = (struct arp_held){ buffer, bytes, next_hop, initiated };
    return true;
}

/* ---- Time ---- */

static void entry_forget(struct net_ip *ip, struct arp_entry *entry)
{
    if (entry->state == ARP_FREE || is_fixed(ip, entry))
        return;
    held_release(ip, entry->address, NULL);
    entry_remove(&ip->arp, entry);
}

void arp_flush(struct net_ip *ip)
{
    for (uint32_t i = 0; i < ip->arp.entry_count; i++)
        entry_forget(ip, &ip->arp.entries[i]);
    arp_check(ip);
}

void arp_renew(struct net_ip *ip, uint64_t now_ns)
{
    for (uint32_t i = 0; i < ip->arp.entry_count; i++) {
        struct arp_entry *entry = &ip->arp.entries[i];
        if (entry->state == ARP_FREE || !is_needed(ip, entry)) {
            entry_forget(ip, entry);
        } else if (!is_fixed(ip, entry)) {
            entry->request_count = has_mac(entry); /* 1: as if asked by unicast in vain */
            entry->state = has_mac(entry) ? ARP_KNOWN : ARP_ASKING;
            entry_due_at(ip, entry, now_ns); /* by broadcast, and any answer counts */
        }
    }
    arp_check(ip);
}

/* Ends a row of requests without an answer. A neighbour that was known is used on, and asked again later: some gateways
 * forward but do not answer requests, and a wrong guess costs nothing but packets. */
static void entry_unanswered(struct net_ip *ip, struct arp_entry *entry, uint64_t now_ns)
{
    ASSERT(entry->request_count >= ARP_REQUEST_COUNT_MAX);
    if (has_mac(entry)) {
        entry->request_count = 0;
        entry_due_at(ip, entry, now_ns + ARP_FRESH_NS);
        return;
    }
    entry->state = ARP_FAILED;
    entry->next_request_ns = now_ns + ARP_REQUEST_INTERVAL_NS;
    held_release(ip, entry->address, NULL);
    change_note(ip, entry);
}

static bool is_due(const struct arp_entry *entry, uint64_t now_ns)
{
    return (entry->state == ARP_ASKING || has_mac(entry)) && now_ns >= entry->next_request_ns;
}

void arp_poll(struct net_ip *ip, uint64_t now_ns)
{
    if (now_ns < ip->arp.due_ns)
        return;
    for (uint32_t i = 0; i < ip->arp.entry_count; i++) {
        struct arp_entry *entry = &ip->arp.entries[i];
        if (!is_due(entry, now_ns))
            continue;
        if (entry->request_count != 0 && time_stood_still(entry->next_request_ns, now_ns))
            entry->request_count = 0; /* an answer may have been lost meanwhile: ask from the start */
        if (entry->request_count >= ARP_REQUEST_COUNT_MAX)
            entry_unanswered(ip, entry, now_ns);
        else if (entry->state == ARP_ASKING || entry->request_count != 0 || is_in_use(ip, entry, now_ns))
            arp_ask(ip, entry, now_ns);
        else
            entry_due_at(ip, entry, now_ns + ARP_FRESH_NS); /* an unused neighbour is not asked */
        check_entry(ip, entry);
    }
    ip->arp.due_ns = arp_next_deadline_ns(ip);
}

uint64_t arp_next_deadline_ns(const struct net_ip *ip)
{
    uint64_t deadline_ns = UINT64_MAX;
    for (uint32_t i = 0; i < ip->arp.entry_count; i++) {
        const struct arp_entry *entry = &ip->arp.entries[i];
        if (is_due(entry, UINT64_MAX) && entry->next_request_ns < deadline_ns)
            deadline_ns = entry->next_request_ns;
    }
    return deadline_ns;
}

/* ---- What must hold ---- */

void arp_check(const struct net_ip *ip)
{
    const struct arp *arp = &ip->arp;
    uint32_t strangers_count = 0;
    ASSERT(arp->due_ns <= arp_next_deadline_ns(ip));
    for (uint32_t i = 0; i < arp->entry_count; i++)
        if (arp->entries[i].state != ARP_FREE)
            check_entry(ip, &arp->entries[i]);
    ASSERT(arp->held_count <= ARP_HELD_COUNT_MAX);
    for (uint32_t i = 0; i < arp->held_count; i++) {
        const struct arp_held *held = &arp->held[i];
        const struct arp_entry *entry = arp_peek(ip, held->next_hop);
        /* Each frame waits for an answer that will come, or fail. */
        ASSERT(entry != NULL && entry->state == ARP_ASKING);
        ASSERT((held->buffer->holders & TX_HELD_BY_STACK) != 0);
        strangers_count += !held->initiated;
    }
    ASSERT(strangers_count <= ARP_HELD_STRANGERS_MAX);
}
