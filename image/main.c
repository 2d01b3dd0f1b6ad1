/* The composition root of the image: the order in which the machine comes up, and the one loop. */
#include <string.h>

#include "app/program.h"
#include "app/service/service.h"
#include "app/service/settings.h"
#include "app/service/start.h"
#include "app/service/stats.h"
#include "app/service/status_page.h"
#include "app/service/work.h"
#include "base/assert.h"
#include "base/bytes.h"
#include "base/format.h"
#include "base/log.h"
#include "base/secrets.h"
#include "base/time.h"
#include "base/trace.h"
#include "base/version.h"
#include "drivers/console/screen.h"
#include "drivers/console/uart.h"
#include "drivers/nic/nic.h"
#include "drivers/watchdog/i6300esb.h"
#include "kernel/build_id.h"
#include "kernel/cpu/apic.h"
#include "kernel/cpu/cpu.h"
#include "kernel/cpu/random.h"
#include "kernel/cpu/traps.h"
#include "kernel/cpu/workers.h"
#include "kernel/firmware/acpi.h"
#include "kernel/firmware/boot_info.h"
#include "kernel/memory/memory.h"
#include "kernel/memory/paging.h"
#include "kernel/rescue/blackbox.h"
#include "kernel/rescue/console.h"
#include "kernel/rescue/failure.h"
#include "kernel/rescue/power_button.h"
#include "kernel/rescue/reset.h"
#include "kernel/rescue/selftest.h"
#include "kernel/rescue/shutdown.h"
#include "kernel/rescue/watchdog.h"
#include "kernel/settings.h"
#include "kernel/time/clock.h"
#include "kernel/time/sleep.h"
#include "kernel/time/wall_clock.h"
#include "net/capture/pcapng.h"
#include "net/settings.h"

enum {
    READING_PAUSE_MS = 4000, /* a message stands on the screen before Linux comes back */
    RECORD_PERIOD_NS = NS_PER_S,
    /* The i6300ESB acts last: after the kernel's watchdog, and after the dump that the watchdog sets off. The spare
     * time is longer than a reload's period. */
    I6300ESB_SPARE_NS = 2 * NS_PER_S,
    /* A turn that writes to a console is followed by seven times as long without. One of more than a millisecond was
     * the host's, and counts as a millisecond. */
    CONSOLE_SHARE = 8,
    CONSOLE_TURN_NS_MAX = NS_PER_MS,
    RECORDS_PER_COMPARISON = 60, /* between the clocks: an exit or two, once a minute */
};

/* The machine's counters that no module shows by itself. `turn_max_ns` is the longest that the loop has been away from
 * its beginning, sleeps aside. */
#define LOOP_COUNTERS(X)  X(LEVEL, turn_max_ns)
#define LOG_COUNTERS(X)   X(COUNT, lines_missed)
#define TRAPS_COUNTERS(X) X(COUNT, unexpected)
static struct {
    uint64_t LOOP_COUNTERS(COUNTER_MEMBER);
} loop_counters;
static const struct counter_group loop_group = COUNTER_GROUP("loop.", "The one loop", LOOP_COUNTERS, loop_counters);
static const struct counter_group log_group = COUNTER_GROUP("log.", "The log", LOG_COUNTERS, log_lines_missed_count);
static const struct counter_group traps_group = COUNTER_GROUP("traps.", "Traps of the processor", TRAPS_COUNTERS,
                                                              traps_unexpected_count);

static struct boot_info boot;
static struct settings settings;
static bool powered_down; /* the power button was pressed */

_Noreturn void kernel_main(enum boot_protocol protocol, const void *information); /* from boot/entry.asm */

/* ---- the start ---- */

static _Noreturn void settings_refused(const char *message)
{
    log_line("%s", message);
    shutdown_after_failure("the settings cannot be used");
}

/* Wipes the loader's copies of the settings, and notes what the way home wipes. */
static void secrets_read(void)
{
    for (size_t i = 0; i < ARRAY_COUNT(boot.texts); i++)
        if (boot.texts[i].at != NULL)
            memset(boot.texts[i].at, 0, boot.texts[i].bytes);
    settings_secrets(&settings, boot.command_line, secrets_note);
    settings_secrets(&settings, boot.module, secrets_note);
    secrets_note(service_settings.key, service_settings.key_bytes);
    secrets_hold(&boot, sizeof boot);
    secrets_hold(&service_settings, sizeof service_settings);
    if (program.settings->values != NULL)
        secrets_hold(program.settings->values, program.settings->values_bytes);
}

/* Reads all words, as soon as they are known. Mistakes are reported once there are consoles and a crash record. */
static void settings_read(void)
{
    ASSERT(program.settings != NULL && program.turn != NULL);
    service_settings_begin(&settings, program.name, program.settings, &machine_settings_table);
    if (boot.command_line_cut)
        settings_fail(&settings, "settings: the command line is longer than 4095 bytes");
    if (boot.module_cut)
        settings_fail(&settings, "settings: the module is longer than 16383 bytes, or lies where it cannot be read");
    settings_add(&settings, "command line", boot.command_line, strlen(boot.command_line));
    settings_add(&settings, "module", boot.module, strlen(boot.module));
    secrets_read();
}

static void blackbox_claim(void)
{
    ASSERT(machine_settings.blackbox_count <= MACHINE_BLACKBOX_COUNT_MAX);
    for (uint32_t i = 0; i < machine_settings.blackbox_count; i++) {
        const struct machine_region *region = &machine_settings.blackbox[i];
        void *memory = memory_claim(region->address, region->bytes);
        if (memory == NULL)
            log_line("blackbox: 0x%lx, %u bytes: not free RAM here, left out", region->address, region->bytes);
        else
            blackbox_add_region(memory, region->bytes);
    }
}

/* Brings up the machine itself: from here on a mistake is dumped, and time is known. */
static void machine_init(enum boot_protocol protocol, const void *information)
{
    static const char *const protocols[] = {
        [BOOT_MULTIBOOT2] = "Multiboot2",
        [BOOT_PVH] = "PVH",
        [BOOT_LINUX] = "Linux boot protocol",
    };
    failure_init();  /* a panic is dumped, and ends in a reset */
    if (uart_init()) /* the serial line shows the log */
        console_add(uart_write);
    log_line("peregrine %s, program %s, build %s", version_text, program.name, build_id_text());
    blackbox_set_build_id(build_id()); /* names the image in the crash record */
    if (!boot_info_parse(&boot, protocol, information, BOOT_MAPPED_END)) {
        if (protocol == BOOT_PVH) /* QEMU pc-bios/optionrom/pvh_main.c: the text overwrites start_info */
            log_line("PVH: no start_info: QEMU overwrites it when the command line is longer than 4095 bytes");
        shutdown_after_failure("what the loader handed over is broken");
    }
    ASSERT(protocol < ARRAY_COUNT(protocols));
    settings_read(); /* words of the command line and of the module */
    cpu_init(program.wants_plain_cpu != NULL && program.wants_plain_cpu()); /* vector state, SMEP, SMAP */
    traps_init(failure_of_trap);                                            /* an exception is dumped like a panic */
    memory_init(boot.regions, boot.region_count, boot.regions_dropped_count == 0); /* page tables, free RAM */
    blackbox_claim();                     /* the regions of the crash record leave the free RAM */
    apic_init(memory_map_device);         /* the local APIC, without interrupts of its own */
    if (screen_init(&boot.framebuffer)) { /* the screen shows the log as well */
        console_add(screen_write);
        shutdown_set_reading_pause(READING_PAUSE_MS);
    }
    log_line("started by %s%s%s; %s", protocols[protocol], boot.loader[0] ? ", " : "", boot.loader, screen_name());
    cpu_report();                                 /* model and vectors, in the log */
    acpi_init(&boot, machine_settings.acpi_rsdp); /* other CPUs, timers, the reset register */
    reset_arm();                                  /* a reset may use that register from now on */
    if (!clock_init())                            /* the TSC and its frequency */
        shutdown_after_failure("no clock");
    log_clock_ns = clock_now_ns();
    power_button_init();             /* a press means GG */
    wall_clock_init();               /* the date, from kvmclock or the RTC */
    random_init(&boot, sizeof boot); /* the seed of all secrets */
}

static _Noreturn void test_trap(void)
{
    const char *word = machine_settings.test_trap;
    char message[MACHINE_WORD_BYTES_MAX + 80];
    selftest_trap(word);
    format(message, sizeof message, "test.trap=%s: there is no such trap; see docs/settings.md", word);
    settings_refused(message);
}

static void watchdogs_arm(uint64_t timeout_ns)
{
    ASSERT(timeout_ns == 0 || timeout_ns >= NS_PER_S);
    if (timeout_ns == 0) {
        log_line("watchdog: off; a loop that hangs stays until a reset from outside");
        return;
    }
    bool armed = watchdog_arm(timeout_ns, workers_count() > 0);
    armed |= i6300esb_start(timeout_ns + WATCHDOG_DUMP_NS + I6300ESB_SPARE_NS);
    if (!armed)
        log_line("watchdog: this machine has none; a loop that hangs stays until a reset from outside");
}

/* Starts the CPUs that cpus= asks for, or one that serves the watchdog alone. */
static void workers_init(bool is_watched)
{
    uint32_t cpus = service_settings.cpus;
    if (cpus == SERVICE_CPUS_ALL)
        cpus = min_u32((uint32_t)acpi_cpu_count(), SERVICE_CPU_COUNT_MAX);
    ASSERT(cpus >= 1 && cpus <= WORKER_COUNT_MAX + 1);
    if (cpus > 1 || is_watched)
        workers_start(&(struct workers_config){ .wanted = max_u32(cpus, 2) - 1,
                                                .cpu_count = acpi_cpu_count(),
                                                .cpu_apic_id = acpi_cpu_apic_id,
                                                .claim = memory_claim,
                                                .wait_us = clock_spin_us,
                                                .enter = paging_load,
                                                .watch = watchdog_poll });
}

/* Acts on the machine's settings. test.trap= fails before the program's words are checked, or later. */
static void settings_apply(void)
{
    ASSERT(settings.table_count > 0);
    const struct machine_settings *s = &machine_settings;
    if (settings.error[0] != '\0')
        settings_refused(settings.error);
    reset_use_methods(s->test_methods);
    workers_init(s->watchdog_ns != 0);
    watchdogs_arm(s->watchdog_ns);
    if (s->test_trap[0] != '\0' && s->test_after_ns == 0)
        test_trap();
    if (!settings_finish(&settings))
        settings_refused(settings.error);
    if (s->tsc_khz != 0)
        clock_refine(s->tsc_khz);
}

static _Noreturn void device_missing(const char *error)
{
    log_line("network: %s", error);
    shutdown_after_failure("no network device");
}

/* Finds the network device. With wait=sleep its interrupts are set up as well, where machine and device have them. */
static struct netdev *device_find(void)
{
    struct netdev *device;
    bool sleeps = service_settings.wait == SERVICE_WAIT_SLEEP;
    bool can_sleep = sleeps && sleep_init();
    static const uint8_t any[NETDEV_MAC_BYTES];
    static struct pci_message message;
    message = (struct pci_message){ sleep_message_address(), sleep_message_data() };
    const struct nic_wish wish = {
        .words = &machine_settings.virtio_mmio,
        .message = can_sleep ? &message : NULL,
        .mac = memcmp(network_settings.nic_mac, any, sizeof any) != 0 ? network_settings.nic_mac : NULL,
    };
    const char *error = nic_find(&device, &wish);
    if (error != NULL)
        device_missing(error);
    ASSERT(device != NULL);
    if (sleeps && !nic_can_wake())
        log_line("wait=sleep: this device cannot wake this machine; it spins");
    watchdog_watch(nic_rx_frames());
    watchdog_beat();
    return device;
}

static void card_next(void)
{
    const char *error = nic_find_next();
    if (error != NULL)
        device_missing(error);
    watchdog_watch(nic_rx_frames());
}

/* Shows both watchdogs that the search for a card goes on, and looks at the power button, which the loop obeys. */
static void start_beat(void)
{
    static uint64_t next_ns;
    uint64_t now_ns = clock_now_ns();
    watchdog_beat();
    if (now_ns < next_ns)
        return;
    next_ns = now_ns + RECORD_PERIOD_NS;
    i6300esb_reload();
    powered_down |= power_button_pressed();
}

static bool worker_work(void) { return work_poll(worker_me()); }

/* Takes off the loop, besides jobs, the log's consoles and the status page's text. */
static bool helper_work(void)
{
    bool worked = worker_work();
    worked |= console_poll();
    return status_page_render() || worked;
}

static bool has_helper(void) { return workers_count() > 0 && service_settings.cpus != 1; }

/* Gives the workers their work: the last one is the helper. Without cpus= there is one for the watchdog alone. */
static void workers_begin(void)
{
    const uint32_t count = has_helper() ? workers_count() : 0;
    ASSERT(count <= WORK_WORKER_COUNT_MAX);
    work_set_workers(count);
    for (uint32_t worker = 1; worker <= count; worker++)
        workers_give(worker, worker < count ? worker_work : helper_work);
}

static void statistics_init(void)
{
    stats_clear();
    blackbox_set_statistics(stats_line);
    if (service_settings.capture_bytes != 0)
        blackbox_set_frames(pcapng_record);
    stats_add_fact("build", build_id_text());
    stats_add_fact("clock", clock_source());
    const struct counter_group *of_nic;
    for (size_t i = 0; (of_nic = nic_counter_group(i)) != NULL; i++)
        stats_add_counters(of_nic);
    static const struct counter_group *const groups[] = {
        &loop_group, &log_group, &traps_group, &wall_clock_counter_group, &watchdog_counter_group,
    };
    for (size_t i = 0; i < ARRAY_COUNT(groups); i++)
        stats_add_counters(groups[i]);
}

/* ---- the loop ---- */

/* Rests until a frame comes or a timer is due; not at all if there is something to do. */
static void rest(uint64_t now_ns)
{
    uint64_t deadline_ns = program.next_deadline_ns(now_ns);
    if (deadline_ns > now_ns && nic_wake())
        sleep_until_ns(now_ns, deadline_ns);
    nic_quiet();
}

/* Comes home if the card has sent nothing for net.timeout= of what it was given. Call once a second. The other
 * direction is app/service/silence.h. */
static void sent_check(void)
{
    const uint64_t timeout_ns = service_settings.net_timeout_ns, stalled_s = nic_levels();
    if (timeout_ns == 0 || stalled_s < 3 || stalled_s * NS_PER_S < timeout_ns)
        return;
    log_line("network: the card has sent nothing for %llu s of what it was given", (unsigned long long)stalled_s);
    shutdown_after_failure(service_verdict_name(PROGRAM_NETWORK_LOST));
}

/* Writes once a second the record of a running machine, a slice of it each turn. True while one is being written. Does
 * the other work of each second as well. */
static bool record_poll(uint64_t begun_ns, uint64_t now_ns)
{
    static uint64_t next_ns, records;
    ASSERT(begun_ns <= now_ns);
    if (blackbox_step()) {
        trace_work(TRACE_WORK_RECORD);
        return true;
    }
    if (now_ns >= next_ns) {
        if (machine_settings.test_trap[0] != '\0' && now_ns - begun_ns >= machine_settings.test_after_ns)
            test_trap();
        next_ns = now_ns + RECORD_PERIOD_NS;
        sent_check();
        i6300esb_reload();
        watchdog_check_workers();
        clock_follow_host();
        powered_down |= power_button_pressed();
        if (++records % RECORDS_PER_COMPARISON == 0)
            wall_clock_compare();
        blackbox_begin();
    }
    return false;
}

/* Turns the one loop. Log lines go out a few characters at a time, because each is an exit to the hypervisor. They have
 * about an eighth of the time: else a frame that comes after a line would often wait for its characters. */
static enum program_verdict run(void)
{
    enum program_verdict verdict;
    uint64_t begun_ns = clock_now_ns();
    ASSERT(begun_ns <= clock_now_ns());
    log_defer(true);
    if (has_helper())
        console_hand_over(workers_count());
    uint64_t last_cycles = cycles_now(), before_ns = clock_at_ns(last_cycles), console_due_ns = 0;
    do {
        watchdog_beat();
        failure_of_workers();
        trace_stamp(TRACE_FRAME_SEEN);
        log_clock_ns = clock_turn_ns(trace.cycles[TRACE_FRAME_SEEN], &last_cycles);
        loop_counters.turn_max_ns = max_size(loop_counters.turn_max_ns, log_clock_ns - before_ns);
        trace_turn(log_clock_ns - before_ns);
        before_ns = log_clock_ns;
        verdict = program.turn(log_clock_ns);
        bool writing = record_poll(begun_ns, log_clock_ns);
        if (log_clock_ns < console_due_ns) {
            writing = true; /* something is left */
        } else if (log_drain()) {
            trace_work(TRACE_WORK_CONSOLE);
            writing = true;
            const uint64_t now_ns = clock_now_ns();
            const uint64_t turn_ns = now_ns - min_ns(log_clock_ns, now_ns);
            console_due_ns = log_clock_ns + CONSOLE_SHARE * min_ns(turn_ns, CONSOLE_TURN_NS_MAX);
        }
        if (!writing && nic_can_wake()) {
            rest(clock_turn_ns(cycles_now(), &last_cycles));
            before_ns = clock_turn_ns(cycles_now(), &last_cycles);
        }
        if (nic_broken() != NULL) {
            log_line("network: %s", nic_broken());
            shutdown_after_failure("the network device failed");
        }
        if (powered_down) {
            log_line("power button: pressed, which means GG");
            powered_down = false;
            service_leave();
        }
    } while (verdict == PROGRAM_ON);
    console_take_back();
    return verdict;
}

/* ---- the end ---- */

static bool final_flush_step(void) { return program_flush_step(clock_now_ns()); }

static void statistics_log(void)
{
    wall_clock_report();
    char line[STATS_LINE_BYTES_MAX + 1];
    size_t bytes;
    for (size_t i = 0; (bytes = stats_line(i, line, sizeof line)) != 0; i++) {
        ASSERT(bytes < sizeof line);
        log_line("stats: %.*s", (int)bytes - 1, line); /* without its '\n' */
        watchdog_beat();                               /* a serial line takes its time */
    }
}

_Noreturn void kernel_main(enum boot_protocol protocol, const void *information)
{
    machine_init(protocol, information);
    settings_apply();
    struct netdev *device = device_find();
    statistics_init();
    workers_begin();
    log_clock_ns = clock_now_ns();
    const struct start_platform platform = { .device = device,
                                             .cards_left = nic_cards_left,
                                             .card_next = card_next,
                                             .tsc_khz = clock_tsc_khz(),
                                             .has_helper = has_helper(),
                                             .now_ns = clock_now_ns,
                                             .wall_error_ns = wall_clock_error_ns(),
                                             .random = random_bytes,
                                             .memory_take = memory_take,
                                             .beat = start_beat };
    const char *mistake = program_start(&platform);
    if (mistake != NULL)
        settings_refused(mistake);
    watchdog_beat();
    log_clock_ns = clock_now_ns();
    memory_seal();
    if (service_settings.log.address != 0)
        shutdown_set_final_flush(final_flush_step);
    enum program_verdict verdict = run();
    ASSERT(verdict != PROGRAM_ON);
    statistics_log();
    if (verdict <= PROGRAM_FINISHED)
        shutdown(service_verdict_name(verdict));
    shutdown_after_failure(service_verdict_name(verdict));
}
