#include "net/settings.h"

#include <string.h>

#include "base/assert.h"
#include "base/time.h"
#include "net/ip/dhcp.h"

struct transport_config network_settings;

static struct settings_refusal set_ip(void *values, struct bytes value)
{
    struct transport_config *s = values;
    struct bytes address, length;
    uint64_t bits;
    if (text_is(value, "dhcp"))
        return settings_accept();
    if (!text_split(&value, '/', &address) || !text_split(&value, '/', &length) || value.data
        || !text_address(address, &s->address) || !endpoint_address_is_unicast(s->address)
        || !text_number(length, 1, 32, &bits))
        return settings_refuse(SETTINGS_EXPECTED);
    ASSERT(bits >= 1);
    ASSERT(bits <= 32);
    s->mask = UINT32_MAX << (32 - bits);
    uint32_t host = s->address & ~s->mask;
    if (bits < 31 && (host == 0 || host == ~s->mask)) /* RFC 1122 §3.2.1.3; RFC 3021 has /31 */
        return settings_refuse("the subnet's own address and its broadcast address are no machine's");
    return settings_accept();
}

static struct settings_refusal set_lease(void *values, struct bytes value)
{
    struct transport_config *s = values;
    struct bytes seconds, server;
    uint64_t number;
    if (!text_split(&value, '@', &seconds) || !text_split(&value, '@', &server) || value.data
        || !text_number(seconds, 0, UINT32_MAX, &number) || !text_address(server, &s->lease_server)
        || !endpoint_address_is_unicast(s->lease_server))
        return settings_refuse(SETTINGS_EXPECTED);
    if (number == 0)
        return settings_refuse("the lease is over; ip=dhcp asks for a new one");
    s->lease_seconds = (uint32_t)number;
    return settings_accept();
}

/* Appends an option's bytes, two hexadecimal digits each. Returns false if they are none, or too many. */
static bool identity_add(struct bytes *identity, uint64_t option, struct bytes digits)
{
    static uint8_t bytes[DHCP_IDENTITY_BYTES_MAX];
    size_t count = digits.count / 2, at = identity->count;
    ASSERT(at <= sizeof bytes);
    if (count == 0 || digits.count % 2 != 0 || count > UINT8_MAX || at + 2 + count > sizeof bytes)
        return false;
    bytes[at++] = (uint8_t)option;
    bytes[at++] = (uint8_t)count;
    for (size_t i = 0; i < count; i++) {
        int high = text_hex_digit(digits.data[2 * i]), low = text_hex_digit(digits.data[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        bytes[at++] = (uint8_t)(high << 4 | low);
    }
    *identity = (struct bytes){ bytes, at };
    return true;
}

static struct settings_refusal set_dhcp_send(void *values, struct bytes value)
{
    struct bytes *identity = &((struct transport_config *)values)->dhcp_identity, part, option;
    *identity = (struct bytes){ NULL, 0 };
    while (text_split(&value, ',', &part)) {
        struct bytes whole = part;
        uint64_t number;
        if (!text_split(&part, ':', &option) || !text_number(option, 1, 254, &number)
            || !identity_add(identity, number, part))
            return settings_refuse_part(SETTINGS_EXPECTED, whole);
        if (dhcp_option_is_own((uint8_t)number))
            return settings_refuse_part("the client writes this option itself", whole);
    }
    return identity->count != 0 ? settings_accept() : settings_refuse(SETTINGS_EXPECTED);
}

static bool mac_is_zero(const uint8_t mac[NETDEV_MAC_BYTES])
{
    static const uint8_t zero[NETDEV_MAC_BYTES];
    return memcmp(mac, zero, sizeof zero) == 0;
}

static struct settings_refusal set_mac(uint8_t mac[NETDEV_MAC_BYTES], struct bytes value)
{
    struct bytes part;
    unsigned i = 0;
    for (; text_split(&value, ':', &part); i++) {
        int high = part.count == 2 ? text_hex_digit(part.data[0]) : -1;
        int low = part.count == 2 ? text_hex_digit(part.data[1]) : -1;
        if (i == NETDEV_MAC_BYTES || high < 0 || low < 0)
            return settings_refuse(SETTINGS_EXPECTED);
        ASSERT(i < NETDEV_MAC_BYTES);
        mac[i] = (uint8_t)(high << 4 | low);
    }
    /* A group address is nobody's own: IEEE 802 §8.2. */
    if (i != NETDEV_MAC_BYTES || mac[0] & 1 || mac_is_zero(mac))
        return settings_refuse(SETTINGS_EXPECTED);
    return settings_accept();
}

static struct settings_refusal set_gwmac(void *values, struct bytes value)
{
    return set_mac(((struct transport_config *)values)->gateway_mac, value);
}

static struct settings_refusal set_nic(void *values, struct bytes value)
{
    return set_mac(((struct transport_config *)values)->nic_mac, value);
}

#define AT(member) SETTING_AT(struct transport_config, member)
static const struct setting rows[] = {
    { "ip", SETTING_CUSTOM, .set = set_ip, .initial = "dhcp", .noun = "dhcp or ADDRESS/LENGTH, like 10.0.2.15/24",
      .help = "this machine's address" },
    { "gw", SETTING_ADDRESS, AT(gateway), .unset = "none", .noun = "the gateway's address, like 10.0.2.2",
      .help = "may lie outside the subnet (`/32` clouds)" },
    { "gwmac", SETTING_CUSTOM, .set = set_gwmac, .unset = "ask ARP",
      .noun = "the gateway's hardware address, like 52:55:0a:00:02:02",
      .help = "is used from the start; ARP then asks there whether it still holds" },
    { "nic", SETTING_CUSTOM, .set = set_nic, .unset = "the first card; the next if it gets no network",
      .noun = "the card's hardware address, like 52:54:00:12:34:56", .help = "drives this network card and no other" },
    { "lease", SETTING_CUSTOM, .set = set_lease, .unset = "the address is the machine's own",
      .noun = "SECONDS@SERVER, like 43200@10.0.2.2",
      .help = "the rest of the DHCP lease of `ip`, which the kernel renews at that server" },
    { "dhcp.send", SETTING_CUSTOM, .set = set_dhcp_send, .unset = "none",
      .noun = "OPTION:HEX,..., like 61:01525400123456,12:77656231, of at most 256 bytes",
      .help = "options of each DHCP message: the client identifier (61), host name (12) and vendor class (60) by which "
              "the server knows Linux" },
    { "mtu", SETTING_NUMBER, AT(mtu_bytes), .min = 576, .max = 1500, .unset = "the device's", /* RFC 791 §3.1: 576 */
      .noun = "bytes", .help = "IP bytes in a frame" },
    { "rto.min", SETTING_TIME, AT(rto_min_ns), .min = NS_PER_MS, .max = 60 * NS_PER_S, .unset = "the stack's (200 ms)",
      .help = "least retransmission time-out" },
    { "ecn", SETTING_SWITCH, AT(ecn), .initial = "on",
      .help = "routers may mark packets instead of dropping them (RFC 3168; own stack)" },
};

static const char *finish(void)
{
    const struct transport_config *s = &network_settings;
    if (s->gateway && !s->address)
        return "gw= goes with ip=ADDRESS/LENGTH, not with DHCP";
    if (s->gateway && s->gateway == s->address)
        return "gw= is the address of ip=: this machine is not its own gateway";
    if (s->lease_seconds && !s->address)
        return "lease= goes with ip=ADDRESS/LENGTH";
    if (s->dhcp_identity.count && s->address && !s->lease_seconds)
        return "dhcp.send= goes with ip=dhcp or lease=";
    if (!mac_is_zero(s->gateway_mac) && !s->gateway)
        return "gwmac= goes with gw=";
    return NULL;
}

const struct settings_table network_settings_table = {
    rows, ARRAY_COUNT(rows), &network_settings, sizeof network_settings, finish, NULL,
};
