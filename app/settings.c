#include "app/settings.h"

#include <string.h>

#include "app/settings_keys.h"
#include "app/span.h"
#include "kernel/base/bytes.h"
#include "kernel/base/log.h"

static bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

/* Put on command lines by others: GRUB's linux and kexec (BOOT_IMAGE, initrd, root, ro, quiet ...), Firecracker
 * (console, reboot, panic, pci, nomodules, 8250.*, i8042.*, virtio_mmio.device, root, rw), QEMU's microvm
 * (virtio_mmio.device), crosvm and kexec-tools (noapic, earlyprintk, elfcorehdr, acpi_rsdp, ...). */
static const char *const foreign_words[] = {
    "BOOT_IMAGE", "initrd", "root", "rootfstype", "rootflags", "ro", "rw", "quiet", "splash", "console", "earlycon",
    "earlyprintk", "loglevel", "reboot", "panic", "pci", "acpi", "acpi_rsdp", "noapic", "nomodules", "nomodule",
    "nosplash", "virtio_mmio.device", "8250.nr_uarts", "i8042.noaux", "i8042.nomux", "i8042.nopnp", "i8042.dumbkbd",
    "swiotlb", "random.trust_cpu", "tsc", "memmap", "crashkernel", "elfcorehdr", "net.ifnames", "init", "vt.handoff",
};

static bool is_foreign(struct span name)
{
    for (size_t i = 0; i < ARRAY_COUNT(foreign_words); i++)
        if (span_is(name, foreign_words[i]))
            return true;
    return false;
}

/* Messages. */

enum { QUOTE_BYTES_MAX = 80 };

/* The span as it may be shown: unprintable bytes as '?', cut with "...". */
static const char *quote(struct span s, char out[QUOTE_BYTES_MAX + 4])
{
    size_t bytes = min_size(s.bytes, QUOTE_BYTES_MAX);
    for (size_t i = 0; i < bytes; i++)
        out[i] = s.at[i] > ' ' && s.at[i] <= '~' ? s.at[i] : '?';
    memcpy(out + bytes, s.bytes > bytes ? "..." : "", s.bytes > bytes ? 4 : 1);
    return out;
}

static bool fail_word(struct settings_error *error, const char *source, struct span word, const char *reason)
{
    char quoted[QUOTE_BYTES_MAX + 4];
    format(error->text, sizeof error->text, "settings, %s: \"%s\": %s", source, quote(word, quoted), reason);
    return false;
}

static bool fail_value(struct settings_error *error, const char *source, const struct settings_key *key,
                       struct span value, struct settings_refusal refusal)
{
    char quoted[QUOTE_BYTES_MAX + 4];
    if (refusal.part.at)
        value = refusal.part;
    if (key->secret)
        format(error->text, sizeof error->text, "settings, %s: %s= (%zu bytes, not shown): %s", source, key->name,
               value.bytes, refusal.reason);
    else
        format(error->text, sizeof error->text, "settings, %s: %s=: \"%s\": %s", source, key->name,
               quote(value, quoted), refusal.reason);
    return false;
}

/* Words. */

static bool add_foreign(struct settings *s, const char *source, struct span word, struct settings_error *error)
{
    struct span value = word, name;
    span_split(&value, '=', &name);
    if (!span_is(name, "virtio_mmio.device") || !value.at)
        return true;
    if (s->virtio_mmio_count == SETTINGS_VIRTIO_MMIO_COUNT_MAX || value.bytes > SETTINGS_VIRTIO_MMIO_BYTES_MAX)
        return fail_word(error, source, word, "at most 32 devices of at most 63 bytes each");
    char *device = s->virtio_mmio[s->virtio_mmio_count++];
    memcpy(device, value.at, value.bytes);
    device[value.bytes] = '\0';
    return true;
}

static bool add_word(struct settings *s, const char *source, struct span word, bool first, struct settings_error *error)
{
    struct span value = word, name;
    span_split(&value, '=', &name);
    for (size_t i = 0; i < settings_key_count; i++) {
        const struct settings_key *key = &settings_keys[i];
        if (!span_is(name, key->name))
            continue;
        if (!value.at)
            return fail_word(error, source, word, "this key needs a value: key=value");
        if (s->keys_seen & BIT(i))
            return fail_word(error, source, name, "given twice");
        s->keys_seen |= BIT(i);
        struct settings_refusal refusal = key->set(s, value);
        return !refusal.reason || fail_value(error, source, key, value, refusal);
    }
    if (is_foreign(name))
        return add_foreign(s, source, word, error);
    /* Some loaders put the image's path in front: QEMU, kexec and GRUB by their multiboot forms. */
    if (first && !value.at && (word.at[0] == '/' || word.at[0] == '('))
        return true;
    return fail_word(error, source, value.at && name.bytes ? name : word,
                     value.at ? "there is no such key" : "not a key=value word");
}

void settings_begin(struct settings *s)
{
    memset(s, 0, sizeof *s);
    s->early = true;
    s->cpus = 1;
    s->early_risk = 1e-5;
    s->net_timeout_ns = UINT64_C(60) * 1000000000;
    s->server_timeout_ns = UINT64_C(300) * 1000000000;
    s->feed_timeout_ns = UINT64_C(10) * 1000000000;
    s->deadline_ns = UINT64_C(86400) * 1000000000;
    s->breaker_count = 200;
    s->breaker_window_ns = UINT64_C(60) * 1000000000;
    s->breaker_linger_ns = UINT64_C(60) * 1000000000;
    s->control_port = SETTINGS_CONTROL_PORT;
    s->test_rungs = UINT32_MAX;
}

bool settings_add(struct settings *s, const char *source, const char *text, size_t bytes, struct settings_error *error)
{
    size_t at = 0;
    bool first = true;
    while (at < bytes && text[at]) {
        if (is_space(text[at])) {
            at++;
        } else if (text[at] == '#') {
            while (at < bytes && text[at] && text[at] != '\n')
                at++;
        } else {
            size_t from = at;
            while (at < bytes && text[at] && !is_space(text[at]))
                at++;
            if (!add_word(s, source, (struct span){ text + from, at - from }, first, error))
                return false;
            first = false;
        }
    }
    return true;
}

static bool fail_whole(struct settings_error *error, const char *reason)
{
    format(error->text, sizeof error->text, "settings: %s", reason);
    return false;
}

bool settings_finish(struct settings *s, struct settings_error *error)
{
    for (size_t i = 0; i < settings_key_count; i++) {
        if (settings_keys[i].required && !(s->keys_seen & BIT(i))) {
            format(error->text, sizeof error->text, "settings: %s= is missing; feed, submit, user, passwd, n and m are "
                   "required", settings_keys[i].name);
            return false;
        }
    }
    if (s->feeds_wanted && s->feeds_wanted < s->feed_count)
        return fail_whole(error, "feeds= is less than the number of addresses in feed=");
    if (s->gateway && !s->address)
        return fail_whole(error, "gw= goes with ip=ADDRESS/LENGTH, not with DHCP");
    if (s->gateway && s->gateway == s->address)
        return fail_whole(error, "gw= is the address of ip=: this machine is not its own gateway");
    if (s->gateway_mac[0] | s->gateway_mac[1] | s->gateway_mac[2] | s->gateway_mac[3] | s->gateway_mac[4]
        | s->gateway_mac[5]) {
        if (!s->gateway)
            return fail_whole(error, "gwmac= goes with gw=");
    }

    if (s->idle_timeout_ns && s->key_bytes == 0)
        return fail_whole(error, "idle.timeout= goes with key=: without it nobody can ask");

    /* One entry per connection: the addresses in turn. */
    uint32_t given = s->feed_count;
    for (; s->feed_count < s->feeds_wanted; s->feed_count++)
        s->feeds[s->feed_count] = s->feeds[s->feed_count % given];
    return true;
}

void settings_transport(const struct settings *s, struct transport_config *config)
{
    config->address = s->address;
    config->mask = s->mask;
    config->gateway = s->gateway;
    memcpy(config->gateway_mac, s->gateway_mac, sizeof config->gateway_mac);
    config->mtu_bytes = s->mtu_bytes;
    config->rto_min_us = s->rto_min_us;
}

void settings_matcher(const struct settings *s, struct matcher_config *config)
{
    memset(config, 0, sizeof *config);
    config->n_digits_max = s->n_digits_max;
    config->constant_count = s->constant_count;
    for (uint32_t i = 0; i < s->constant_count; i++)
        config->constants[i] = s->constants[i];
    config->simd = s->simd;
    config->early = s->early;
    config->early_risk = s->early_risk;
}
