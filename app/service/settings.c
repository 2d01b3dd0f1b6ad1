#include "app/service/settings.h"

#include "base/assert.h"
#include "net/capture/capture.h"
#include "net/settings.h"

struct service_settings service_settings;

/* Reads the key: the bytes as they stand, or 0x and hexadecimal. tools/deploy/control.py reads its --key alike. */
static struct settings_refusal set_key(void *values, struct bytes value)
{
    struct service_settings *s = values;
    bool hex = value.count >= 2 && value.data[0] == '0' && value.data[1] == 'x';
    s->key_bytes = hex ? (value.count - 2) / 2 : value.count;
    if (s->key_bytes < SERVICE_KEY_BYTES_MIN || s->key_bytes > SERVICE_KEY_BYTES_MAX || (hex && value.count % 2))
        return settings_refuse(SETTINGS_EXPECTED);
    for (size_t i = 0; i < s->key_bytes; i++) {
        if (!hex) {
            s->key[i] = value.data[i];
            continue;
        }
        int high = text_hex_digit(value.data[2 + 2 * i]), low = text_hex_digit(value.data[3 + 2 * i]);
        if (high < 0 || low < 0)
            return settings_refuse(SETTINGS_EXPECTED);
        s->key[i] = (uint8_t)(high << 4 | low);
    }
    return settings_accept();
}

static struct settings_refusal set_capture(void *values, struct bytes value)
{
    enum { FRAMES_USUAL = 1024 };
    struct service_settings *s = values;
    struct bytes rest = value, bytes = value, frames;
    uint64_t number, count = FRAMES_USUAL;
    text_split(&rest, ',', &bytes);
    if (!text_number(bytes, 1, CAPTURE_BYTES_MAX, &number))
        return settings_refuse_part(SETTINGS_EXPECTED, bytes);
    if (text_split(&rest, ',', &frames) && !text_number(frames, CAPTURE_FRAMES_MIN, CAPTURE_FRAMES_MAX, &count))
        return settings_refuse_part(SETTINGS_EXPECTED, frames);
    if (rest.data)
        return settings_refuse(SETTINGS_EXPECTED);
    ASSERT(count >= CAPTURE_FRAMES_MIN);
    s->capture_bytes = (uint32_t)number;
    s->capture_frames = (uint32_t)count;
    if (capture_memory_bytes(s->capture_bytes, s->capture_frames) > CAPTURE_MEMORY_BYTES_MAX)
        return settings_refuse("a capture takes 16 MiB of memory at most: BYTES and 40 for each frame");
    return settings_accept();
}

/* Reads a number of CPUs, or "all". */
static struct settings_refusal set_cpus(void *values, struct bytes value)
{
    struct service_settings *s = values;
    uint64_t number = SERVICE_CPUS_ALL;
    ASSERT(s == &service_settings);
    if (!text_is(value, "all") && !text_number(value, 1, SERVICE_CPU_COUNT_MAX, &number))
        return settings_refuse(SETTINGS_EXPECTED);
    s->cpus = (uint32_t)number;
    return settings_accept();
}

/* In the order of enum service_wait. */
static const char *const wait_names[] = { "spin", "sleep", NULL };

#define AT(member) SETTING_AT(struct service_settings, member)
static const struct setting rows[] = {
    { "net.timeout", SETTING_TIME, AT(net_timeout_ns), .initial = "60", .zero = "never",
      .help = "give the machine back after so long without a usable address, or without a frame and without an answer "
              "of the gateway, "
              "or else the DHCP server, to four ARP requests" },
    { "deadline", SETTING_TIME, AT(deadline_ns), .initial = "86400", .zero = "never",
      .help = "give the machine back after so long" },
    { "idle.timeout", SETTING_TIME, AT(idle_timeout_ns), .initial = "0", .zero = "never",
      .help = "give the machine back after so long without a genuine command on the control channel (needs `key`); a "
              "HELLO that was dropped because too many came counts like one ([control.md](control.md))" },
    { "key", SETTING_CUSTOM, .set = set_key, .secret = true, .unset = "control channel off",
      .noun = "8 to 64 bytes, as text or as 0x and hexadecimal digits", .help = "shared with `tools/gg`" },
    { "control.port", SETTING_NUMBER, AT(control_port), .min = 1, .max = UINT16_MAX, .initial = "18247",
      .noun = "a UDP port", .help = "the control channel ([control.md](control.md))" },
    { "http.port", SETTING_NUMBER, AT(http_port), .min = 1, .max = UINT16_MAX, .initial = "0", .zero = "none",
      .noun = "a TCP port", .help = "the status page ([status.md](status.md)); anybody who reaches it may read it" },
    { "agent.port", SETTING_NUMBER, AT(agent_port), .min = 1, .max = UINT16_MAX, .initial = "0", .zero = "none",
      .noun = "a TCP port",
      .help = "HAProxy's agent check: a line with the free capacity in percent, for whoever connects "
              "([balance.md](balance.md)); for programs that measure it" },
    { "log", SETTING_ENDPOINT, AT(log), .unset = "none", .help = "the log over UDP ([status.md](status.md))" },
    { "capture", SETTING_CUSTOM, .set = set_capture, .unset = "off",
      .noun = "BYTES or BYTES,FRAMES: 1 to 1514 bytes of each of 16 to 65536 frames",
      .help = "keeps the first bytes of the last frames (without FRAMES: 1024), in and out, for Wireshark "
              "([capture.md](capture.md)); in the kernel alone" },
    { "capture.http", SETTING_SWITCH, AT(capture_http), .initial = "off",
      .help = "serves them at `/capture` of `http.port`: anybody who reaches it reads the traffic" },
    { "wait", SETTING_CHOICE, AT(wait), .choices = wait_names, .initial = "spin",
      .help = "with `sleep` the CPU sleeps until something arrives, where the platform can (in the kernel: a device "
              "with MSI-X)" },
    { "cpus", SETTING_CUSTOM, .set = set_cpus, .initial = "1", .noun = "1 to 64, or `all`",
      .help = "CPUs, or threads on Linux, the first one among them: the last one writes the log to its consoles and "
              "renders the status page, so that the first one only polls and plays; they spin (on Linux with "
              "`wait=sleep` they nap), and serve `watchdog` as well; a hyperthread takes time from the other one of "
              "its core ([architecture.md](architecture.md))" },
};

static const char *finish(void)
{
    if (service_settings.idle_timeout_ns && service_settings.key_bytes == 0)
        return "idle.timeout= goes with key=: without it nobody can ask";
    if (service_settings.capture_http && service_settings.capture_bytes == 0)
        return "capture.http=on goes with capture=: else there is nothing to serve";
    if (service_settings.capture_http && service_settings.http_port == 0)
        return "capture.http=on goes with http.port=: the status page serves it";
    return NULL;
}

const struct settings_table service_settings_table = {
    rows, ARRAY_COUNT(rows), &service_settings, sizeof service_settings, finish, NULL,
};

/* ---- words of others ---- */

/* Put on command lines by others. GRUB's linux and kexec: BOOT_IMAGE, initrd, root, ro, quiet. Firecracker: console,
 * reboot, panic, pci, nomodules, 8250.*, i8042.*, root, rw. crosvm and kexec-tools: noapic, earlyprintk,
 * elfcorehdr. kvmtool: noacpi, i8042.direct. */
#define FOREIGN(word)                                                                                                  \
    {                                                                                                                  \
        .name = word, .kind = SETTING_FOREIGN                                                                          \
    }
static const struct setting loader_rows[] = {
    FOREIGN("BOOT_IMAGE"),
    FOREIGN("initrd"),
    FOREIGN("root"),
    FOREIGN("rootfstype"),
    FOREIGN("rootflags"),
    FOREIGN("ro"),
    FOREIGN("rw"),
    FOREIGN("quiet"),
    FOREIGN("splash"),
    FOREIGN("nosplash"),
    FOREIGN("console"),
    FOREIGN("earlycon"),
    FOREIGN("earlyprintk"),
    FOREIGN("loglevel"),
    FOREIGN("reboot"),
    FOREIGN("panic"),
    FOREIGN("pci"),
    FOREIGN("acpi"),
    FOREIGN("noapic"),
    FOREIGN("noacpi"),
    FOREIGN("i8042.direct"),
    FOREIGN("nomodules"),
    FOREIGN("nomodule"),
    FOREIGN("8250.nr_uarts"),
    FOREIGN("i8042.noaux"),
    FOREIGN("i8042.nomux"),
    FOREIGN("i8042.nopnp"),
    FOREIGN("i8042.dumbkbd"),
    FOREIGN("swiotlb"),
    FOREIGN("tsc"),
    FOREIGN("random.trust_cpu"),
    FOREIGN("memmap"),
    FOREIGN("crashkernel"),
    FOREIGN("elfcorehdr"),
    FOREIGN("net.ifnames"),
    FOREIGN("init"),
    FOREIGN("vt.handoff"),
};
static const struct settings_table loader_table = { .rows = loader_rows, .count = ARRAY_COUNT(loader_rows) };

void service_settings_begin(struct settings *settings, const char *name, const struct settings_table *program,
                            const struct settings_table *machine)
{
    ASSERT(program && program->rows);
    const struct settings_table *const shared[] = { &service_settings_table, &network_settings_table, &loader_table,
                                                    machine };
    const struct settings_table *tables[SETTINGS_TABLE_COUNT_MAX] = { program };
    size_t count = 1;
    for (size_t i = 0; program->parts != NULL && program->parts[i] != NULL; i++, count++) {
        ASSERT(count + ARRAY_COUNT(shared) < ARRAY_COUNT(tables));
        tables[count] = program->parts[i];
    }
    for (size_t i = 0; i < ARRAY_COUNT(shared) - (machine == NULL); i++)
        tables[count++] = shared[i];
    settings_begin(settings, tables, count);
    settings->program = name;
}
