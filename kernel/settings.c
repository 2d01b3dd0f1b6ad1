/* The machine's table of settings, and the parsers of its own kinds of values. Acts on none of them. */
#include "kernel/settings.h"

#include "base/time.h"

struct machine_settings machine_settings;

static bool parse_address(struct bytes s, uint64_t *address)
{
    if (s.count < 3 || s.count > 15 || s.data[0] != '0' || s.data[1] != 'x') /* 52 bits: SDM vol. 3, MAXPHYADDR */
        return false;
    *address = 0;
    for (size_t i = 2; i < s.count; i++) {
        if (text_hex_digit(s.data[i]) < 0)
            return false;
        *address = *address << 4 | (uint64_t)text_hex_digit(s.data[i]);
    }
    return *address != 0;
}

static struct settings_refusal set_acpi_rsdp(void *values, struct bytes value)
{
    return parse_address(value, &((struct machine_settings *)values)->acpi_rsdp) ? settings_accept()
                                                                                 : settings_refuse(SETTINGS_EXPECTED);
}

static struct settings_refusal set_blackbox(void *values, struct bytes value)
{
    struct machine_settings *s = values;
    struct bytes address, bytes;
    while (text_split(&value, ',', &address)) {
        uint64_t number;
        if (s->blackbox_count == MACHINE_BLACKBOX_COUNT_MAX || !text_split(&value, ',', &bytes)
            || !parse_address(address, &s->blackbox[s->blackbox_count].address)
            || s->blackbox[s->blackbox_count].address % MACHINE_BLACKBOX_PAGE_BYTES != 0
            || !text_number(bytes, MACHINE_BLACKBOX_PAGE_BYTES, MACHINE_BLACKBOX_BYTES_MAX, &number)
            || number % MACHINE_BLACKBOX_PAGE_BYTES != 0) {
            s->blackbox_count = 0; /* a refused value claims no memory */
            return settings_refuse(SETTINGS_EXPECTED);
        }
        s->blackbox[s->blackbox_count++].bytes = (uint32_t)number;
    }
    return settings_accept();
}

static struct settings_refusal set_test_methods(void *values, struct bytes value)
{
    /* In the order of enum reset_method, kernel/rescue/reset.h. */
    static const char *const names[] = { "acpi", "cf9", "8042", "triple" };
    struct machine_settings *s = values;
    struct bytes part;
    s->test_methods = 0;
    if (text_is(value, "none"))
        return settings_accept();
    while (text_split(&value, ',', &part)) {
        size_t i = 0;
        while (i < ARRAY_COUNT(names) && !text_is(part, names[i]))
            i++;
        if (i == ARRAY_COUNT(names))
            return settings_refuse_part(SETTINGS_EXPECTED, part);
        s->test_methods |= (uint32_t)BIT(i);
    }
    return settings_accept();
}

static struct settings_refusal set_virtio_mmio(void *values, struct bytes value)
{
    struct machine_virtio_mmio *mmio = &((struct machine_settings *)values)->virtio_mmio;
    if (mmio->count == MACHINE_VIRTIO_MMIO_COUNT_MAX || value.count > MACHINE_VIRTIO_MMIO_BYTES_MAX)
        return settings_refuse("at most 32 devices of at most 63 bytes each");
    text_to_string(mmio->words[mmio->count++], value);
    return settings_accept();
}

#define AT(member) SETTING_AT(struct machine_settings, member)
static const struct setting rows[] = {
    { "watchdog", SETTING_TIME, AT(watchdog_ns), .min = NS_PER_S, .max = 3600 * NS_PER_S, .initial = "30",
      .zero = "never",
      .help = "the machine is reset when the loop has stood still for so long: by another CPU if there is one, else by "
              "a timer's NMI, 18 times a second; besides, 10 s later (after 2082 s at most), by an `i6300esb` if there "
              "is one; the log says which ([architecture.md](architecture.md))" },
    { "tsc.khz", SETTING_NUMBER, AT(tsc_khz), .min = 100000, .max = 10000000, /* no x86-64 lies outside */
      .unset = "the kernel finds out", .noun = "the TSC's frequency in kHz", .help = "as Linux measured it" },
    { "acpi_rsdp", SETTING_CUSTOM, .set = set_acpi_rsdp, .unset = "the loader's, UEFI's, or where a BIOS puts it",
      .noun = "0xADDRESS", .help = "the root pointer of the ACPI tables; Linux knows the same word" },
    { "blackbox", SETTING_CUSTOM, .set = set_blackbox, .unset = "no record in memory",
      .noun = "0xADDRESS,BYTES, at most 4 such pairs; whole pages, at most 1 MiB each",
      .help = "memory for the crash record ([blackbox.md](blackbox.md))" },
    { "test.trap", SETTING_TEXT, AT(test_trap), .min = 1, .max = MACHINE_WORD_BYTES_MAX, .unset = "none",
      .noun = "the name of a trap", .help = "makes the kernel fail on purpose, see below" },
    { "test.after", SETTING_TIME, AT(test_after_ns), .initial = "0", .zero = "at once",
      .help = "the failure of `test.trap` comes after so long a time of running" },
    { "test.resets", SETTING_CUSTOM, .set = set_test_methods, .initial = "acpi,cf9,8042,triple",
      .noun = "some of acpi,cf9,8042,triple, or none", .help = "the reset methods that may be used" },
    { "virtio_mmio.device", SETTING_CUSTOM, .set = set_virtio_mmio, .repeats = true, .unset = "none",
      .noun = "SIZE@BASE:IRQ[:ID]",
      .help = "a virtio device that no bus shows; virtual machine monitors add the word, up to 32 times" },
};

const struct settings_table machine_settings_table = {
    rows, ARRAY_COUNT(rows), &machine_settings, sizeof machine_settings, NULL, NULL,
};
