/* A program on Linux: build/host/peregrine-linux is the player. The second composition root; image/main.c is the
 * other. */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/program.h"
#include "app/service/service.h"
#include "app/service/settings.h"
#include "app/service/start.h"
#include "app/service/stats.h"
#include "app/service/status_page.h"
#include "app/service/work.h"
#include "base/assert.h"
#include "base/log.h"
#include "base/trace.h"
#include "base/version.h"
#include "host/platform.h"
#include "host/settings_page.h"
#include "host/sockets.h"
#include "host/statistics.h"
#include "host/workers.h"
#include "kernel/settings.h"

enum { EXIT_OUTPUT = 1, EXIT_SETTINGS = 2, EXIT_NETWORK_LOST = 3, EXIT_SERVER_LOST = 4, FILE_BYTES_MAX = 64 * 1024 };

static const char usage_head[] =
    "[--file FILE]... [KEY=VALUE]...\n"
    "\n"
    "Runs over Linux sockets, with the settings that the kernel takes (docs/settings.md). "
    "--file FILE takes words from a\n"
    "file, with # comments. --settings prints the keys as the table of docs/settings.md. --ports prints the ports\n"
    "that the program listens at with these settings, and binds none. --all prints all statistics at the end, a line\n"
    "each, and no table. --version prints the version.\n"
    "\n";
static const char usage_tail[] =
    "\n"
    "Addresses are numbers: host names are not resolved. The network's and the machine's keys are Linux's business "
    "and\n"
    "are not used. The log goes to standard error, the statistics to standard output at the end.\n"
    "\n"
    "Ends by SIGINT, SIGTERM, tools/gg, a time-out, or of itself. Exit code: 2 settings; 3 the network was lost\n"
    "(net.timeout=); 4 the server was (server.timeout=); 1 the output found no place, as on a full disk; 0 each other\n"
    "end.\n";

static struct settings settings;
static bool ports_wanted; /* --ports */
static bool all_wanted;   /* --all */
static volatile sig_atomic_t interrupted;

static void interrupt(int number)
{
    (void)number;
    interrupted = interrupted + 1;
}

static int refuse(const char *message)
{
    ASSERT(message[0] != '\0');
    fprintf(stderr, "%s: %s\n", program_invocation_short_name, message);
    return EXIT_SETTINGS;
}

/* Returns the exit status: output that is lost is a failure, unless its reader has enough, as `head`. */
static int ended(int status)
{
    if ((fflush(stdout) == 0 && !ferror(stdout)) || errno == EPIPE)
        return status;
    fprintf(stderr, "%s: standard output: %s\n", program_invocation_short_name, strerror(errno));
    return status != 0 ? status : EXIT_OUTPUT;
}

static void add_file(const char *path)
{
    static char text[FILE_BYTES_MAX + 1];
    FILE *file = fopen(path, "r");
    size_t bytes = file ? fread(text, 1, sizeof text, file) : 0;
    ASSERT(bytes <= sizeof text);
    if (!file || ferror(file))
        settings_fail(&settings, "%.200s: %s", path, strerror(errno));
    else if (bytes > FILE_BYTES_MAX)
        settings_fail(&settings, "%.200s: more than 64 KiB of settings", path);
    else
        settings_add(&settings, path, text, bytes);
    if (file)
        fclose(file);
}

static bool read_settings(int argc, char **argv)
{
    ASSERT(argc >= 1);
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--ports"))
            ports_wanted = true;
        else if (!strcmp(argv[i], "--all"))
            all_wanted = true;
        else if (strcmp(argv[i], "--file"))
            settings_add(&settings, "command line", argv[i], strlen(argv[i]));
        else if (++i < argc)
            add_file(argv[i]);
        else
            settings_fail(&settings, "--file needs a name");
    }
    return settings_finish(&settings);
}

/* Prints a page of help, if a word asks for one. */
static bool print_help(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--settings")) {
            settings_page_print_table(&settings);
            return true;
        }
        if (!strcmp(argv[i], "--version")) {
            printf("%s %s\n", program_invocation_short_name, version_text);
            return true;
        }
        if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) {
            printf("%s %s", program_invocation_short_name, usage_head);
            settings_page_print_help(&settings);
            fputs(usage_tail, stdout);
            return true;
        }
    }
    return false;
}

static enum program_verdict run(void)
{
    enum program_verdict verdict = PROGRAM_ON;
    uint64_t before_ns = platform_now_ns();
    while (verdict == PROGRAM_ON && interrupted < 2) { /* the second signal waits for nothing */
        if (interrupted)
            service_leave();
        log_clock_ns = platform_now_ns();
        trace_turn(log_clock_ns - before_ns);
        before_ns = log_clock_ns;
        verdict = program.turn(log_clock_ns);
        ASSERT(verdict == PROGRAM_ON || program.stopped || verdict != PROGRAM_STOPPED);
        if (service_settings.wait == SERVICE_WAIT_SLEEP && verdict == PROGRAM_ON) {
            sockets_wait(log_clock_ns, program.next_deadline_ns(log_clock_ns));
            before_ns = platform_now_ns();
        }
    }
    return verdict;
}

int main(int argc, char **argv)
{
    static char statistics[STATS_TEXT_BYTES_MAX];
    service_settings_begin(&settings, program.name, program.settings, &machine_settings_table);
    if (print_help(argc, argv))
        return ended(0);
    if (!read_settings(argc, argv))
        return refuse(settings.error);

    platform_init();
    struct sigaction action = { .sa_handler = interrupt };
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    stats_clear();
    if (ports_wanted) {
        sockets_only_note_ports();
        service_settings.capture_bytes = 0; /* the ports may be the kernel's, which has frames to capture */
        service_settings.capture_http = false;
    } else {
        log_line("peregrine %s, program %s, on Linux", version_text, program.name);
    }
    const uint32_t workers = ports_wanted
                                 ? 0
                                 : workers_start(service_settings.cpus, service_settings.wait == SERVICE_WAIT_SLEEP,
                                                 status_page_render);
    work_set_workers(workers);
    if (service_settings.wait != SERVICE_WAIT_SLEEP)
        sockets_spin();
    const struct start_platform platform = {
        .tsc_khz = platform_tsc_khz(), .has_helper = workers > 0, .now_ns = platform_now_ns, .random = platform_random
    };
    ASSERT(platform.tsc_khz > 0);
    const char *mistake = program_start(&platform);
    if (mistake)
        return refuse(mistake);
    stats_check();
    if (ports_wanted) {
        sockets_print_ports();
        return ended(0);
    }

    enum program_verdict verdict = run();
    bool by_signal = interrupted && (verdict == PROGRAM_ON || verdict == PROGRAM_GG);
    log_line("leaving: %s", by_signal ? "interrupted" : service_verdict_name(verdict));
    while (program_flush_step(platform_now_ns()))
        ;
    if (all_wanted) {
        stats_render(statistics, sizeof statistics);
        fputs(statistics, stdout);
    } else {
        statistics_print();
    }
    return ended(verdict == PROGRAM_NETWORK_LOST  ? EXIT_NETWORK_LOST
                 : verdict == PROGRAM_SERVER_LOST ? EXIT_SERVER_LOST
                                                  : 0);
}
