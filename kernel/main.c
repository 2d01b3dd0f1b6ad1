/* The composition root of the image: the order in which the machine comes up, and the one loop. */
#include <string.h>

#include "app/copilot.h"
#include "app/matcher.h"
#include "app/page.h"
#include "app/player.h"
#include "app/settings.h"
#include "app/stats.h"
#include "app/syslog.h"
#include "drivers/i6300esb.h"
#include "drivers/screen.h"
#include "drivers/uart.h"
#include "drivers/virtio_net.h"
#include "kernel/acpi.h"
#include "kernel/apic.h"
#include "kernel/base/bytes.h"
#include "kernel/base/log.h"
#include "kernel/base/trace.h"
#include "kernel/blackbox.h"
#include "kernel/boot_info.h"
#include "kernel/build_id.h"
#include "kernel/clock.h"
#include "kernel/console.h"
#include "kernel/cpu.h"
#include "kernel/memory.h"
#include "kernel/memory_init.h"
#include "kernel/random.h"
#include "kernel/reset.h"
#include "kernel/second_cpu.h"
#include "kernel/selftest.h"
#include "kernel/sleep.h"
#include "kernel/traps.h"
#include "kernel/wall.h"
#include "kernel/watchdog.h"
#include "net/transport.h"

enum {
    READING_PAUSE_MS = 4000,            /* how long a message stands on the screen before Linux comes back */
    RECORD_PERIOD_NS = 1000000000,
    I6300ESB_SPARE_NS = 2000000000,     /* it acts last: behind the watchdog, and the dump that this sets off */
    RECORDS_PER_COMPARISON = 60,        /* of the clocks: an exit or two, once a minute */
};

/* The longest that the loop has been away from its beginning, sleeps aside; and the machine's counters that no module
 * shows by itself. */
static struct {
    uint64_t turn_max_ns;
} loop_counters;
static const struct counter machine_counter_table[] = {
    COUNTER("loop.", loop_counters, turn_max_ns),
    { "log.lines_missed", &log_lines_missed_count },
    { "traps.unexpected", &traps_unexpected_count },
};
static const struct counter_group machine_counter_group = { machine_counter_table, ARRAY_COUNT(machine_counter_table) };

static struct boot_info boot;
static struct settings settings;
static bool second_cpu;                 /* it is up */

_Noreturn void kernel_main(enum boot_protocol protocol, const void *information);      /* from boot/entry.asm */

/* The black box comes before the settings are read, so that a mistake in them is recorded too: of both texts only this
 * one word is looked at. What is wrong with it is told when all are read. */
static bool blackbox_take(const char *text)
{
    static const char key[] = "blackbox=";
    const char *word = strstr(text, key);
    if (word == NULL || (word != text && (unsigned char)word[-1] > ' ')) {
        return false;
    }
    size_t bytes = 0;
    while ((unsigned char)word[bytes] > ' ') {
        bytes++;
    }
    struct settings_error error;
    settings_begin(&settings);
    if (!settings_add(&settings, "", word, bytes, &error)) {
        return false;
    }
    for (uint32_t i = 0; i < settings.blackbox_count; i++) {
        const struct settings_region *region = &settings.blackbox[i];
        void *memory = memory_claim(region->address, region->bytes);
        if (memory == NULL) {
            log_line("blackbox: 0x%lx, %u bytes: not free RAM here, left out", region->address, region->bytes);
        } else {
            blackbox_add_region(memory, region->bytes);
        }
    }
    return true;
}

/* The machine itself: from here on a mistake is dumped, and time is known. */
static void machine_init(enum boot_protocol protocol, const void *information)
{
    if (uart_init()) {
        console_add(uart_write);
    }
    log_line("peregrine, build %s", build_id_text());
    blackbox_set_build_id(build_id());
    if (!boot_info_parse(&boot, protocol, information, BOOT_MAPPED_END)) {
        if (protocol == BOOT_PVH) {     /* QEMU pc-bios/optionrom/pvh_main.c: the text runs over what lies behind it */
            log_line("PVH: no start_info: QEMU overwrites it when the command line is longer than 4095 bytes");
        }
        reset_after_failure("what the loader handed over is broken");
    }
    cpu_init(strstr(boot.command_line, "simd=scalar") != NULL || strstr(boot.module, "simd=scalar") != NULL);
    traps_init();
    memory_init(&boot);
    if (!blackbox_take(boot.command_line)) {
        blackbox_take(boot.module);
    }
    apic_init();
    if (screen_init(&boot.framebuffer)) {
        console_add(screen_write);
        reset_set_reading_pause(READING_PAUSE_MS);
    }
    static const char *const doors[] = {
        [BOOT_MULTIBOOT2] = "Multiboot2", [BOOT_PVH] = "PVH", [BOOT_LINUX] = "Linux boot protocol",
    };
    log_line("started by %s%s%s; %s", doors[protocol], boot.loader[0] ? ", " : "", boot.loader, screen_name());
    cpu_report();
    acpi_init(&boot);
    reset_arm();
    if (!clock_init()) {
        reset_after_failure("no clock");
    }
    log_clock_ns = clock_now_ns();
    wall_init();
    random_init(&boot);
}

static _Noreturn void settings_refused(const char *message)
{
    log_line("%s", message);
    reset_after_failure("the settings cannot be used");
}

static _Noreturn void test_trap(void)
{
    selftest_trap(settings.test_trap);
    char message[SETTINGS_WORD_BYTES_MAX + 80];
    format(message, sizeof message, "test.trap=%s: there is no such trap; see docs/settings.md", settings.test_trap);
    settings_refused(message);
}

/* The command line, then the module. A trap for testing springs before anything else is asked for, or in the game. */
static void settings_take(void)
{
    struct settings_error error;
    settings_begin(&settings);
    if (boot.command_line_cut) {
        settings_refused("settings: the command line is longer than 4095 bytes");
    }
    if (boot.module_cut) {
        settings_refused("settings: the module is longer than 16383 bytes, or lies where it cannot be read");
    }
    if (!settings_add(&settings, "command line", boot.command_line, strlen(boot.command_line), &error) ||
        !settings_add(&settings, "module", boot.module, strlen(boot.module), &error)) {
        settings_refused(error.text);
    }
    reset_use_rungs(settings.test_rungs);
    bool wanted = settings.watchdog_ns != 0 || settings.cpus > 1;
    second_cpu = wanted && second_cpu_start();
    if (settings.watchdog_ns != 0) {
        watchdog_arm(settings.watchdog_ns, second_cpu);
        i6300esb_start(settings.watchdog_ns + WATCHDOG_DUMP_NS + I6300ESB_SPARE_NS);
    }
    if (settings.test_trap[0] != '\0' && settings.test_after_ns == 0) {
        test_trap();
    }
    if (!settings_finish(&settings, &error)) {
        settings_refused(error.text);
    }
    if (settings.tsc_khz != 0) {
        clock_refine(settings.tsc_khz);
    }
}

/* The network device. With wait=sleep its interrupts are set up as well, where machine and device have them. */
static struct netdev *device_take(void)
{
    struct netdev *device;
    bool sleeps = settings.wait == SETTINGS_WAIT_SLEEP;
    bool can_sleep = sleeps && sleep_init();
    struct virtio_message message = { sleep_message_address(), sleep_message_data() };
    enum virtio_net_error error = virtio_net_find(&device, boot.command_line, can_sleep ? &message : NULL);
    if (error != VIRTIO_NET_OK) {
        log_line("network: %s", virtio_net_error_text(error));
        reset_after_failure("no network device");
    }
    if (sleeps && !virtio_net_can_wake(device)) {
        log_line("wait=sleep: this device cannot wake this machine; it spins");
    }
    return device;
}

/* What cpus=2 takes off the loop: early answers before all else, the log's consoles, the status page's text. */
static bool second_cpu_work(void)
{
    bool wrote = console_turn();
    return copilot_turn() || page_turn() || wrote;
}

/* The parts of the game, bottom up, each told what it needs. */
static struct player *player_take(struct netdev *device)
{
    struct matcher_config matcher_config;
    struct matcher *matcher;
    settings_matcher(&settings, &matcher_config);
    if (matcher_config.simd == MATCHER_SIMD_AUTO) {
        matcher_config.simd = matcher_simd_best();
    }
    if (!matcher_simd_usable(matcher_config.simd)) {
        char message[64];
        format(message, sizeof message, "simd=%s: this machine cannot run that",
               matcher_simd_name(matcher_config.simd));
        settings_refused(message);
    }
    bool shares = second_cpu && settings.cpus > 1, copilot = shares && settings.early;
    const char *mistake = copilot ? copilot_init(&matcher_config) : NULL;
    if (mistake == NULL) {
        mistake = matcher_init(&matcher, &matcher_config);
    }
    if (mistake != NULL) {
        settings_refused(mistake);
    }
    if (shares) {
        second_cpu_give(second_cpu_work);
    }
    stats_clear();
    blackbox_set_statistics(stats_line);
    stats_add_fact("build", build_id_text());
    stats_add_fact("simd", matcher_simd_name(matcher_config.simd));
    stats_add_fact("stack", transport_name());
    stats_add_fact("clock", clock_source());

    struct transport_config transport_config = { .device = device };
    settings_transport(&settings, &transport_config);
    random_bytes(transport_config.secret, sizeof transport_config.secret);
    if (!transport_init(&transport_config, clock_now_ns())) {
        reset_after_failure("the network cannot be used as it is set");
    }
    stats_add_transport();
    struct counter_group device_counters = virtio_net_counter_group();
    stats_add_counters(&device_counters);
    stats_add_counters(&machine_counter_group);
    stats_add_counters(&wall_counter_group);
    stats_add_counters(&watchdog_counter_group);

    struct player_config player_config = { .settings = &settings, .matcher = matcher, .second_cpu = shares,
                                           .copilot = copilot, .tsc_khz = clock_tsc_khz() };
    struct player *player;
    random_bytes(player_config.secret, sizeof player_config.secret);
    mistake = player_init(&player, &player_config, clock_now_ns());
    if (mistake != NULL) {
        settings_refused(mistake);
    }
    log_line("playing with simd=%s, TCP/IP stack %s", matcher_simd_name(matcher_config.simd), transport_name());
    return player;
}

/* Until a frame comes or a timer is due. Not at all if there is something to do. */
static void rest(struct player *player, struct netdev *device)
{
    uint64_t now_ns = clock_now_ns();
    uint64_t wake_ns = player_wake_ns(player, now_ns);
    if (wake_ns > now_ns && virtio_net_wake(device)) {
        sleep_until_ns(now_ns, wake_ns);
    }
    virtio_net_quiet(device);
}

/* Once a second the record of a running machine, a slice of it each turn. True while one is being written. */
static bool record_tend(const struct netdev *device, uint64_t begun_ns, uint64_t now_ns)
{
    static uint64_t next_ns, records;
    if (blackbox_step()) {
        return true;
    }
    if (now_ns >= next_ns) {
        if (settings.test_trap[0] != '\0' && now_ns - begun_ns >= settings.test_after_ns) {
            test_trap();
        }
        next_ns = now_ns + RECORD_PERIOD_NS;
        virtio_net_levels(device);
        i6300esb_tend(now_ns);
        if (++records % RECORDS_PER_COMPARISON == 0) {
            wall_compare();
        }
        blackbox_begin();
    }
    return false;
}

/* The one loop. Log lines go out a few characters at a time, because each is an exit to the hypervisor. */
static enum player_verdict play(struct player *player, struct netdev *device)
{
    enum player_verdict verdict;
    uint64_t begun_ns = clock_now_ns();
    log_defer(true);
    if (second_cpu && settings.cpus > 1) {
        console_hand_over();
    }
    uint64_t before_ns = clock_now_ns();
    do {
        watchdog_beat();
        second_cpu_check();
        trace_stamp(TRACE_FRAME_SEEN);
        log_clock_ns = clock_at_ns(trace.cycles[TRACE_FRAME_SEEN]);
        loop_counters.turn_max_ns = max_size(loop_counters.turn_max_ns, log_clock_ns - before_ns);
        before_ns = log_clock_ns;
        verdict = player_turn(player, log_clock_ns);
        bool writing = record_tend(device, begun_ns, log_clock_ns) | log_drain();
        if (!writing && virtio_net_can_wake(device)) {
            rest(player, device);
            before_ns = clock_now_ns();
        }
        if (virtio_net_broken(device) != NULL) {
            log_line("network: %s", virtio_net_broken(device));
            reset_after_failure("the network device failed");
        }
    } while (verdict == PLAYER_ON);
    console_take_back();
    return verdict;
}

/* What is left of the log, out to syslog. */
static bool last_words_step(void)
{
    uint64_t now_ns = clock_now_ns();
    struct transport_event event;
    transport_poll(now_ns, &event);     /* ARP may have something to say; what the game's connections do is over */
    bool more = syslog_flush_step(now_ns);
    transport_idle(now_ns);
    return more;
}

static void statistics_log(void)
{
    wall_report();
    char line[STATS_LINE_BYTES_MAX + 1];
    size_t bytes;
    for (size_t i = 0; (bytes = stats_line(i, line, sizeof line)) != 0; i++) {
        log_line("stats: %.*s", (int)bytes - 1, line);      /* without its '\n' */
        watchdog_beat();                /* a serial line takes its time */
    }
}

_Noreturn void kernel_main(enum boot_protocol protocol, const void *information)
{
    machine_init(protocol, information);
    settings_take();
    struct netdev *device = device_take();
    log_clock_ns = clock_now_ns();
    struct player *player = player_take(device);
    log_clock_ns = clock_now_ns();
    memory_seal();
    if (settings.log.address != 0) {
        reset_set_last_words(last_words_step);
    }
    enum player_verdict verdict = play(player, device);
    statistics_log();
    if (verdict == PLAYER_GG) {
        reset_machine(player_verdict_name(verdict));
    }
    reset_after_failure(player_verdict_name(verdict));
}
