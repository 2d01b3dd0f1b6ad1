/* IGMP, the host's side.
 *
 * The problem: routers and switches send a group's datagrams only where somebody has asked for them, and they forget.
 * They ask again every two minutes or so. A host must answer in time, and all hosts of a link must not answer at once.
 *
 * Three versions are about, and the querier chooses. To one of version 3, the default, a host reports all groups in one
 * message to 224.0.0.22. To older ones it sends a message for each group to the group itself, and is silent if another
 * member has answered before. The older version stays in force until its querier has been silent for minutes.
 *
 * A message may be lost, so a change is reported twice. The querier sends its questions twice as well.
 *
 * Each group has two timers. `change_ns` is for the reports of its latest change, joined or left. `answer_ns` is for
 * the answer to a query about this group. One more timer of the whole is for the answer to a general query. Timers are
 * times, and `due_ns` is never later than the earliest one: an idle turn of the loop is one comparison.
 *
 * The bound: 8 groups. A group that is left keeps its place for the second report, a second at most, and gives way to a
 * group that is joined meanwhile. Nobody outside can fill a place. */
#include "net/ip/igmp.h"

#include "base/time.h"
#include "net/ip/checksum.h"
#include "net/ip/igmp_wire.h"
#include "net/ip/ip.h"

enum {
    ROBUSTNESS = 2,         /* RFC 9776 §8.1: the reports of one change */
    QUERY_INTERVAL_S = 125, /* RFC 9776 §8.2 */
    MAX_RESPONSE_V1 = 100,  /* RFC 9776 §7.2.1: tenths of a second */
    ROUTER_ALERT_BYTES = 4,
    MESSAGE_OFFSET = IPV4_PAYLOAD_OFFSET + ROUTER_ALERT_BYTES,
    RECORD_BYTES_MAX = sizeof(struct igmp_record_wire) + IGMP_SOURCE_COUNT_MAX * sizeof(uint32_t),
    REPORT_BYTES_MAX = sizeof(struct igmp_report_v3_wire) + IGMP_GROUP_COUNT_MAX * RECORD_BYTES_MAX,
};
#define ROUTER_ALERT          UINT32_C(0x94040000) /* RFC 2113 §2.1 */
#define TENTH_NS              (NS_PER_S / 10)
#define UNSOLICITED_REPORT_NS NS_PER_S /* RFC 9776 §8.11, for the older versions too */
static_assert((int)IPV4_HEADER_BYTES_MIN + (int)ROUTER_ALERT_BYTES + (int)sizeof(struct igmp_report_v3_wire)
                      + (int)RECORD_BYTES_MAX
                  <= (int)IPV4_MTU_BYTES_MIN,
              "one record fits into every MTU");

/* ---- The table ---- */

static struct igmp_group *group_find(struct igmp *igmp, uint32_t address)
{
    for (uint32_t i = 0; i < IGMP_GROUP_COUNT_MAX; i++)
        if (igmp->groups[i].address == address)
            return &igmp->groups[i];
    return NULL;
}

static struct igmp_group *group_joined(struct igmp *igmp, uint32_t address)
{
    struct igmp_group *group = address != 0 ? group_find(igmp, address) : NULL;
    return group != NULL && group->joined ? group : NULL;
}

/* Returns a place for a new group: a free one, or that of a group that is left. NULL: none. */
static struct igmp_group *group_place(struct igmp *igmp)
{
    struct igmp_group *place = group_find(igmp, 0);
    for (uint32_t i = 0; i < IGMP_GROUP_COUNT_MAX && place == NULL; i++)
        if (!igmp->groups[i].joined)
            place = &igmp->groups[i];
    return place;
}

static void answer_cancel(struct igmp_group *group)
{
    group->answer_ns = UINT64_MAX;
    group->source_count = 0;
}

/* Ends the reports of a group's latest change. A group that is left has no further use for its place. */
static void change_end(struct igmp_group *group)
{
    group->reports_left = 0;
    group->change_ns = UINT64_MAX;
    if (!group->joined)
        group->address = 0;
}

/* RFC 9776 §5.1: Begins the reports of a change, at once. */
static void change_begin(struct igmp *igmp, struct igmp_group *group)
{
    answer_cancel(group);
    group->reports_left = ROBUSTNESS;
    group->change_ns = 0;
    igmp->due_ns = 0;
}

static void received_update(struct igmp *igmp)
{
    igmp->received_count = 0;
    for (uint32_t i = 0; i < IGMP_GROUP_COUNT_MAX; i++)
        if (igmp->groups[i].address != 0 && igmp->groups[i].joined)
            igmp->received[igmp->received_count++] = igmp->groups[i].address;
    if (igmp->received_count != 0)
        igmp->received[igmp->received_count++] = IGMP_ALL_SYSTEMS;
    ASSERT(igmp->received_count <= ARRAY_COUNT(igmp->received));
    igmp->filter_stale = true;
}

static void igmp_accept(struct net_ip *ip, const struct ipv4_packet *packet, uint64_t now_ns);
static void igmp_poll(struct net_ip *ip, uint64_t now_ns);

bool igmp_join(struct net_ip *ip, uint32_t address)
{
    static const struct igmp_operations operations = { igmp_accept, igmp_poll };
    struct igmp *igmp = &ip->igmp;
    if (!ipv4_address_is_group(address) || address == IGMP_ALL_SYSTEMS)
        return false;
    if (igmp->operations == NULL) {
        igmp->operations = &operations;
        igmp->version = 3;
        igmp->answer_ns = UINT64_MAX;
    }
    struct igmp_group *group = group_find(igmp, address);
    if (group != NULL && group->joined)
        return true;
    if (group == NULL)
        group = group_place(igmp);
    if (group == NULL)
        return false;
    *group = (struct igmp_group){ .address = address, .joined = true };
    change_begin(igmp, group);
    received_update(igmp);
    igmp_check(ip);
    return true;
}

void igmp_leave(struct net_ip *ip, uint32_t address)
{
    struct igmp_group *group = group_joined(&ip->igmp, address);
    if (group == NULL)
        return;
    group->joined = false;
    change_begin(&ip->igmp, group);
    received_update(&ip->igmp);
    igmp_check(ip);
}

/* ---- Time ---- */

/* Draws a time from (0, most]. */
static uint64_t random_ns(struct net_ip *ip, uint64_t most_ns)
{
    ASSERT(most_ns != 0);
    return 1 + secret_random(&ip->secret) % most_ns;
}

static uint64_t igmp_deadline_ns(const struct igmp *igmp)
{
    uint64_t deadline_ns = igmp->filter_stale ? 0 : igmp->answer_ns;
    for (uint32_t i = 0; i < IGMP_GROUP_COUNT_MAX; i++)
        if (igmp->groups[i].address != 0)
            deadline_ns = min_ns(deadline_ns, min_ns(igmp->groups[i].change_ns, igmp->groups[i].answer_ns));
    return deadline_ns;
}

/* RFC 9776 §7.2.1: Follows the version of the querier. A new version ends all that was to be sent in the old one. A
 * change that has not been reported at all is still reported. */
static void version_update(struct igmp *igmp, uint64_t now_ns)
{
    uint8_t version = now_ns < igmp->older_ends_ns[0] ? 1 : now_ns < igmp->older_ends_ns[1] ? 2 : 3;
    if (version == igmp->version)
        return;
    igmp->version = version;
    igmp->answer_ns = UINT64_MAX;
    for (uint32_t i = 0; i < IGMP_GROUP_COUNT_MAX; i++) {
        answer_cancel(&igmp->groups[i]);
        if (igmp->groups[i].address != 0 && igmp->groups[i].reports_left < ROBUSTNESS)
            change_end(&igmp->groups[i]);
    }
}

/* ---- Outward ---- */

static void group_mac(uint8_t mac[NETDEV_MAC_BYTES], uint32_t group)
{
    struct ethernet_group_wire *wire = (struct ethernet_group_wire *)mac;
    store_be16(&wire->high, ETHERNET_GROUPS_HIGH);
    store_be32(&wire->low, ETHERNET_GROUPS_LOW | (group & ETHERNET_IPV4_GROUP_MASK));
}

/* Sends a message, whose checksum is made here. It is lost if there is no buffer: a second one follows, or a second
 * query. RFC 9776 §4: TTL 1, precedence of internetwork control, and the router alert. */
static bool message_send(struct net_ip *ip, uint32_t destination, const void *message, uint32_t bytes)
{
    struct tx_buffer *buffer = ethernet_send_begin(ip);
    if (buffer == NULL)
        return false;
    struct ethernet_wire *ethernet = (struct ethernet_wire *)buffer->data;
    struct ipv4_wire *header = (struct ipv4_wire *)(ethernet + 1);
    struct igmp_wire *at = (struct igmp_wire *)(buffer->data + MESSAGE_OFFSET);
    const struct ipv4_output output = {
        .source = ip->interface.address,
        .destination = destination,
        .protocol = IPV4_PROTOCOL_IGMP,
        .tos = IPV4_TOS_INTERNETWORK_CONTROL,
        .ttl = 1,
        .id = ip->ipv4_id++,
    };
    memcpy(at, message, bytes);
    at->checksum = 0;
    store_be16(&at->checksum, checksum_finish(checksum_sum(0, at, bytes)));

    ipv4_header_write(header, &output, ROUTER_ALERT_BYTES + bytes);
    header->version_ihl += ROUTER_ALERT_BYTES / 4;
    store_be32(header + 1, ROUTER_ALERT);
    header->checksum = 0;
    store_be16(&header->checksum, checksum_finish(checksum_sum(0, header, sizeof *header + ROUTER_ALERT_BYTES)));

    group_mac(ethernet->destination, destination);
    memcpy(ethernet->source, ip->device->mac, NETDEV_MAC_BYTES);
    store_be16(&ethernet->type, ETHERNET_TYPE_IPV4);
    IP_COUNT(ip, ipv4_tx_datagrams);
    return ethernet_send(ip, buffer, MESSAGE_OFFSET + bytes, 0, 0);
}

/* Sends a message of version 1 or 2 about a group. */
static bool message_send_older(struct net_ip *ip, uint32_t destination, uint8_t type, uint32_t group)
{
    struct igmp_wire message = { .type = type };
    store_be32(&message.group, group);
    return message_send(ip, destination, &message, sizeof message);
}

/* A report of version 3 while it is being written. */
struct report {
    uint32_t bytes, record_count;
    uint8_t data[REPORT_BYTES_MAX];
};

static void report_begin(struct report *report)
{
    report->bytes = sizeof(struct igmp_report_v3_wire);
    report->record_count = 0;
}

static void report_send(struct net_ip *ip, struct report *report)
{
    struct igmp_report_v3_wire *head = (struct igmp_report_v3_wire *)report->data;
    if (report->record_count == 0)
        return;
    *head = (struct igmp_report_v3_wire){ .type = IGMP_REPORT_V3 };
    store_be16(&head->record_count, (uint16_t)report->record_count);
    if (message_send(ip, IGMP_ALL_ROUTERS_V3, report->data, report->bytes))
        IP_COUNT(ip, igmp_tx_reports);
    report_begin(report);
}

/* Adds a record about the first `source_count` sources of a group. Sends the records before it if the MTU has no room
 * for one more. */
static void report_add(struct net_ip *ip, struct report *report, uint8_t type, const struct igmp_group *group,
                       uint32_t source_count)
{
    uint32_t bytes = (uint32_t)(sizeof(struct igmp_record_wire) + source_count * sizeof(uint32_t));
    ASSERT(source_count <= IGMP_SOURCE_COUNT_MAX);
    if (report->bytes + bytes > ipv4_payload_room(ip) - ROUTER_ALERT_BYTES)
        report_send(ip, report);
    ASSERT(report->bytes + bytes <= sizeof report->data);
    struct igmp_record_wire *record = (struct igmp_record_wire *)(report->data + report->bytes);
    *record = (struct igmp_record_wire){ .type = type };
    store_be16(&record->source_count, (uint16_t)source_count);
    store_be32(&record->group, group->address);
    for (uint32_t i = 0; i < source_count; i++)
        store_be32((uint8_t *)(record + 1) + i * sizeof(uint32_t), group->sources[i]);
    report->bytes += bytes;
    report->record_count++;
}

/* Counts a report of a group's latest change as sent. RFC 9776 §5.1: the next one follows after a random time. */
static void change_sent(struct net_ip *ip, struct igmp_group *group, uint64_t now_ns)
{
    ASSERT(group->reports_left != 0);
    group->reports_left--;
    group->change_ns = now_ns + random_ns(ip, UNSOLICITED_REPORT_NS);
    if (group->reports_left == 0)
        change_end(group);
}

/* Sends the due reports of version 3: changes in one message, answers in another. RFC 9776 §5.1 and §5.2. */
static void reports_send_v3(struct net_ip *ip, uint64_t now_ns)
{
    struct igmp *igmp = &ip->igmp;
    struct report changes, answers;
    bool general = now_ns >= igmp->answer_ns;
    report_begin(&changes);
    report_begin(&answers);
    for (uint32_t i = 0; i < IGMP_GROUP_COUNT_MAX; i++) {
        struct igmp_group *group = &igmp->groups[i];
        if (group->address == 0)
            continue;
        if (group->joined && (general || now_ns >= group->answer_ns)) {
            uint32_t source_count = general ? 0 : group->source_count;
            uint8_t type = source_count != 0 ? IGMP_MODE_IS_INCLUDE : IGMP_MODE_IS_EXCLUDE;
            report_add(ip, &answers, type, group, source_count);
            if (now_ns >= group->answer_ns)
                answer_cancel(group);
        }
        if (now_ns >= group->change_ns) {
            uint8_t type = group->joined ? IGMP_CHANGE_TO_EXCLUDE_MODE : IGMP_CHANGE_TO_INCLUDE_MODE;
            report_add(ip, &changes, type, group, 0);
            change_sent(ip, group, now_ns);
        }
    }
    if (general)
        igmp->answer_ns = UINT64_MAX;
    report_send(ip, &changes);
    report_send(ip, &answers);
}

/* RFC 2236 §6: Reports a group to a querier of version 1 or 2, or takes leave of it. */
static void report_send_older(struct net_ip *ip, struct igmp_group *group)
{
    uint8_t version = ip->igmp.version;
    ASSERT(version < 3);
    if (group->joined) {
        group->last_reporter = true;
        if (message_send_older(ip, group->address, version == 1 ? IGMP_REPORT_V1 : IGMP_REPORT_V2, group->address))
            IP_COUNT(ip, igmp_tx_reports);
    } else if (version == 2 && group->last_reporter) {
        if (message_send_older(ip, IGMP_ALL_ROUTERS, IGMP_LEAVE_V2, group->address))
            IP_COUNT(ip, igmp_tx_leaves);
    }
}

static void reports_send_older(struct net_ip *ip, uint64_t now_ns)
{
    for (uint32_t i = 0; i < IGMP_GROUP_COUNT_MAX; i++) {
        struct igmp_group *group = &ip->igmp.groups[i];
        if (group->address == 0 || now_ns < min_ns(group->change_ns, group->answer_ns))
            continue;
        report_send_older(ip, group);
        if (now_ns >= group->answer_ns)
            answer_cancel(group);
        if (now_ns < group->change_ns)
            continue;
        if (group->joined)
            change_sent(ip, group, now_ns);
        else
            change_end(group); /* leave is taken once */
    }
}

/* Gives the device the Ethernet addresses of all groups, if it can use them. */
static void filter_set(struct net_ip *ip)
{
    uint8_t macs[NETDEV_GROUP_COUNT_MAX][NETDEV_MAC_BYTES];
    struct igmp *igmp = &ip->igmp;
    ASSERT(igmp->received_count <= ARRAY_COUNT(macs));
    for (uint32_t i = 0; i < igmp->received_count; i++)
        group_mac(macs[i], igmp->received[i]);
    igmp->filter_stale = false;
    if (ip->device->ops->groups_set != NULL)
        ip->device->ops->groups_set(ip->device, (const uint8_t(*)[NETDEV_MAC_BYTES])macs, igmp->received_count);
}

/* Reports all groups again, because the link or our address is new. */
static void announce(struct igmp *igmp)
{
    igmp->announce = false;
    igmp->filter_stale = true; /* the card may be another one */
    for (uint32_t i = 0; i < IGMP_GROUP_COUNT_MAX; i++)
        if (igmp->groups[i].address != 0 && igmp->groups[i].joined)
            change_begin(igmp, &igmp->groups[i]);
}

static void igmp_poll(struct net_ip *ip, uint64_t now_ns)
{
    struct igmp *igmp = &ip->igmp;
    if (!ip->interface.up || (now_ns < igmp->due_ns && !igmp->announce))
        return;
    version_update(igmp, now_ns);
    if (igmp->announce)
        announce(igmp);
    if (igmp->filter_stale)
        filter_set(ip);
    if (igmp->version == 3)
        reports_send_v3(ip, now_ns);
    else
        reports_send_older(ip, now_ns);
    igmp->due_ns = igmp_deadline_ns(igmp);
    igmp_check(ip);
}

/* ---- Inward ---- */

/* Returns the bound of the time for an answer. RFC 9776 §4.1.1, §7.2.1. A bound of 0 would have all hosts answer at
 * once; it counts as the smallest that can be written. */
static uint64_t max_response_ns(uint8_t code, int version)
{
    uint32_t tenths = code;
    if (version == 1)
        tenths = MAX_RESPONSE_V1;
    else if (version == 3 && code >= 128)
        tenths = ((code & 0xfu) | 0x10) << ((code >> 4 & 7) + 3);
    return max_u32(tenths, 1) * TENTH_NS;
}

/* Adds the sources of a query to those that an answer will be about. More than there is room for make it an answer
 * about the group, which wants all sources. */
static void sources_add(struct igmp_group *group, const uint8_t *sources, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t source = load_be32(sources + i * sizeof source), known = 0;
        while (known < group->source_count && group->sources[known] != source)
            known++;
        if (known == IGMP_SOURCE_COUNT_MAX) {
            group->source_count = 0;
            return;
        }
        group->sources[known] = source;
        group->source_count = max_u32(group->source_count, known + 1);
    }
}

/* RFC 9776 §5.2: Plans the answer to a query in version 3. `group` 0: a general one. */
static void answer_plan_v3(struct net_ip *ip, uint32_t address, const uint8_t *sources, uint32_t source_count,
                           uint64_t at_ns)
{
    struct igmp *igmp = &ip->igmp;
    if (igmp->answer_ns <= at_ns) /* rule 1 */
        return;
    if (address == 0) { /* rule 2 */
        igmp->answer_ns = at_ns;
        return;
    }
    struct igmp_group *group = group_joined(igmp, address);
    if (group == NULL)
        return;
    bool pending = group->answer_ns != UINT64_MAX;
    if (source_count == 0 || (pending && group->source_count == 0)) /* rule 4 */
        group->source_count = 0;
    else /* rules 3 and 5 */
        sources_add(group, sources, source_count);
    group->answer_ns = min_ns(group->answer_ns, at_ns);
}

/* RFC 2236 §3: Plans the answers to a query in version 1 or 2. `group` 0: all groups answer, each in its own time. */
static void answers_plan_older(struct net_ip *ip, uint32_t address, uint64_t most_ns, uint64_t now_ns)
{
    for (uint32_t i = 0; i < IGMP_GROUP_COUNT_MAX; i++) {
        struct igmp_group *group = &ip->igmp.groups[i];
        if (group->address == 0 || !group->joined || (address != 0 && group->address != address))
            continue;
        if (group->answer_ns > now_ns + most_ns)
            group->answer_ns = now_ns + random_ns(ip, most_ns);
    }
}

/* Returns the version of a query, by RFC 9776 §7.1; 0: the message has a length that none has. */
static int query_version(const struct ipv4_packet *packet)
{
    const struct igmp_query_v3_wire *query = (const struct igmp_query_v3_wire *)packet->payload;
    uint32_t bytes = packet->payload_bytes;
    if (bytes == sizeof(struct igmp_wire))
        return query->head.max_response == 0 ? 1 : 2;
    if (bytes < sizeof *query || load_be16(&query->source_count) * sizeof(uint32_t) > bytes - sizeof *query)
        return 0;
    return 3;
}

static void query_accept(struct net_ip *ip, const struct ipv4_packet *packet, uint64_t now_ns)
{
    struct igmp *igmp = &ip->igmp;
    const struct igmp_query_v3_wire *query = (const struct igmp_query_v3_wire *)packet->payload;
    int version = query_version(packet);
    if (version == 0) {
        IP_COUNT(ip, igmp_rx_drop_length);
        return;
    }
    uint32_t address = version == 1 ? 0 : load_be32(&query->head.group); /* RFC 1112: ignored in version 1 */
    uint32_t source_count = version == 3 ? load_be16(&query->source_count) : 0;
    bool possible = address != 0 ? ipv4_address_is_group(address) && address != IGMP_ALL_SYSTEMS
                                 : source_count == 0 && packet->destination == IGMP_ALL_SYSTEMS; /* RFC 9776 §9.1 */
    if (!possible) {
        IP_COUNT(ip, igmp_rx_drop_group);
        return;
    }
    IP_COUNT(ip, igmp_rx_queries);

    uint64_t most_ns = max_response_ns(query->head.max_response, version);
    if (version < 3 && address == 0) /* RFC 9776 §7.2.1, §8.12; a query about a group changes no version */
        igmp->older_ends_ns[version - 1] = now_ns + ROBUSTNESS * QUERY_INTERVAL_S * NS_PER_S + 10 * most_ns;
    version_update(igmp, now_ns);
    if (igmp->version == 3)
        answer_plan_v3(ip, address, (const uint8_t *)(query + 1), source_count, now_ns + random_ns(ip, most_ns));
    else
        answers_plan_older(ip, address, most_ns, now_ns);
    igmp->due_ns = igmp_deadline_ns(igmp);
}

/* RFC 2236 §3: Takes the report of another member, who has answered for us. In version 3 everybody answers. Routers
 * have not heard a report that went elsewhere than to its group (§9). */
static void report_accept(struct net_ip *ip, const struct ipv4_packet *packet)
{
    uint32_t address = load_be32(&((const struct igmp_wire *)packet->payload)->group);
    struct igmp_group *group = group_joined(&ip->igmp, address);
    if (packet->destination != address) {
        IP_COUNT(ip, igmp_rx_drop_group);
        return;
    }
    IP_COUNT(ip, igmp_rx_reports);
    if (ip->igmp.version == 3 || group == NULL || min_ns(group->change_ns, group->answer_ns) == UINT64_MAX)
        return;
    answer_cancel(group);
    change_end(group);
    group->last_reporter = false;
}

static void igmp_accept(struct net_ip *ip, const struct ipv4_packet *packet, uint64_t now_ns)
{
    const struct igmp_wire *message = (const struct igmp_wire *)packet->payload;
    if (packet->payload_bytes < sizeof *message) {
        IP_COUNT(ip, igmp_rx_drop_length);
        return;
    }
    if (!NET_SKIP_CHECKSUMS && checksum_finish(checksum_sum(0, message, packet->payload_bytes)) != 0) {
        IP_COUNT(ip, igmp_rx_drop_bad_checksum);
        return;
    }
    if (packet->header[offsetof(struct ipv4_wire, ttl)] != 1) { /* a router has forwarded it */
        IP_COUNT(ip, igmp_rx_drop_ttl);
        return;
    }
    switch (message->type) {
    case IGMP_QUERY:
        query_accept(ip, packet, now_ns);
        break;
    case IGMP_REPORT_V1:
    case IGMP_REPORT_V2:
        report_accept(ip, packet);
        break;
    default: /* RFC 9776 §4: ignored */
        IP_COUNT(ip, igmp_rx_drop_type);
        break;
    }
    igmp_check(ip);
}

/* ---- What must hold ---- */

static void check_group(const struct net_ip *ip, const struct igmp_group *group)
{
    ASSERT(ipv4_address_is_group(group->address) && group->address != IGMP_ALL_SYSTEMS);
    ASSERT(group->reports_left <= ROBUSTNESS);
    ASSERT((group->reports_left == 0) == (group->change_ns == UINT64_MAX));
    ASSERT(group->joined || group->reports_left != 0);       /* a group that is left has a reason to stay */
    ASSERT(group->joined || group->answer_ns == UINT64_MAX); /* ... and answers nobody */
    ASSERT(group->source_count <= IGMP_SOURCE_COUNT_MAX);
    ASSERT(group->source_count == 0 || group->answer_ns != UINT64_MAX);
    ASSERT(ipv4_receives_group(ip, group->address, UINT32_MAX) == group->joined);
}

void igmp_check(const struct net_ip *ip)
{
    const struct igmp *igmp = &ip->igmp;
    uint32_t joined_count = 0;
    if (igmp->operations == NULL) {
        ASSERT(igmp->received_count == 0);
        return;
    }
    ASSERT(igmp->version >= 1 && igmp->version <= 3);
    ASSERT(igmp->version == 3 || igmp->answer_ns == UINT64_MAX);
    ASSERT(igmp->due_ns <= igmp_deadline_ns(igmp));
    for (uint32_t i = 0; i < IGMP_GROUP_COUNT_MAX; i++) {
        if (igmp->groups[i].address == 0)
            continue;
        check_group(ip, &igmp->groups[i]);
        joined_count += igmp->groups[i].joined;
    }
    ASSERT(igmp->received_count == (joined_count != 0 ? joined_count + 1 : 0));
}
