/* peregrine-linux: the player as a Linux program. The second composition root; kernel/main.c is the other. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "app/copilot.h"
#include "app/matcher.h"
#include "app/page.h"
#include "app/player.h"
#include "app/settings.h"
#include "app/stats.h"
#include "app/syslog.h"
#include "host/platform.h"
#include "host/sockets.h"
#include "kernel/base/log.h"
#include "net/transport.h"

enum { EXIT_SETTINGS = 2, EXIT_NETWORK_LOST = 3, EXIT_SERVER_LOST = 4, FILE_BYTES_MAX = 64 * 1024 };

static const char usage[] =
    "peregrine-linux [--file FILE]... [KEY=VALUE]...\n"
    "\n"
    "Plays the contest over Linux sockets, with the settings that the kernel takes (docs/settings.md):\n"
    "  feed=IP:PORT submit=IP:PORT user=NAME passwd=WORD n=N m=M1,M2,...   what to play; all required\n"
    "  key=KEY control.port=PORT     the control channel, for tools/gg\n"
    "  http.port=PORT                the status page (docs/status.md)\n"
    "  cpus=2                        a second thread finds the early answers and renders the status page\n"
    "  log=IP:PORT                   the log over UDP as well, RFC 5424\n"
    "  wait=sleep                    sleep until something arrives (the default, spin, is faster)\n"
    "  --file FILE                   takes words from a file, with # comments\n"
    "Addresses are numbers: host names are not resolved. ip=, gw=, gwmac=, mtu= and rto.min= are Linux's business and\n"
    "are not used. The log goes to standard error, the statistics to standard output at the end.\n"
    "\n"
    "Ends by SIGINT, SIGTERM, tools/gg, or a time-out. Exit code: 0 told to end, or deadline= reached; 2 settings;\n"
    "3 the network was lost (net.timeout=); 4 the server was (server.timeout=).\n";

static volatile sig_atomic_t interrupted;
static void interrupt(int number)
{
    (void)number;
    interrupted = 1;
}

static int refuse(const char *message)
{
    fprintf(stderr, "peregrine-linux: %s\n", message);
    return EXIT_SETTINGS;
}

static bool add_file(struct settings *settings, const char *path, struct settings_error *error)
{
    static char text[FILE_BYTES_MAX + 1];
    FILE *file = fopen(path, "r");
    size_t bytes = file ? fread(text, 1, sizeof text, file) : 0;
    bool good = file && !ferror(file) && bytes <= FILE_BYTES_MAX;
    if (!good)
        snprintf(error->text, sizeof error->text, "%.200s: %s", path, file && bytes > FILE_BYTES_MAX
                 ? "more than 64 KiB of settings" : strerror(errno));
    if (file)
        fclose(file);
    return good && settings_add(settings, path, text, bytes, error);
}

static bool read_settings(int count, char **words, struct settings *settings, struct settings_error *error)
{
    settings_begin(settings);
    for (int i = 1; i < count; i++) {
        if (!strcmp(words[i], "--file")) {
            if (++i == count) {
                snprintf(error->text, sizeof error->text, "--file needs a name");
                return false;
            }
            if (!add_file(settings, words[i], error))
                return false;
        } else if (!settings_add(settings, "command line", words[i], strlen(words[i]), error)) {
            return false;
        }
    }
    return settings_finish(settings, error);
}

static enum player_verdict play(struct player *player, enum settings_wait wait)
{
    enum player_verdict verdict = PLAYER_ON;
    while (verdict == PLAYER_ON && !interrupted) {
        log_clock_ns = platform_now_ns();
        verdict = player_turn(player, log_clock_ns);
        if (wait == SETTINGS_WAIT_SLEEP && verdict == PLAYER_ON)
            sockets_wait(log_clock_ns, player_wake_ns(player, log_clock_ns));
    }
    return verdict;
}

/* What cpus=2 takes off the loop: early answers before all else, the status page's text. Ends with the program. */
static void *second_thread(void *wait)
{
    const struct timespec nap = { .tv_nsec = 50000 };
    for (;;) {
        if (copilot_turn() || page_turn())
            continue;
        if (*(const enum settings_wait *)wait == SETTINGS_WAIT_SLEEP)
            nanosleep(&nap, NULL);
        else
            __builtin_ia32_pause();
    }
    return NULL;
}

int main(int count, char **words)
{
    static struct settings settings;
    static char statistics[STATS_TEXT_BYTES_MAX];
    struct settings_error error;
    for (int i = 1; i < count; i++)
        if (!strcmp(words[i], "--help") || !strcmp(words[i], "-h"))
            return fputs(usage, stdout) < 0 || fflush(stdout) != 0;
    if (!read_settings(count, words, &settings, &error))
        return refuse(error.text);

    platform_init();
    struct sigaction action = { .sa_handler = interrupt };
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);

    struct matcher_config matcher_config;
    struct matcher *matcher;
    settings_matcher(&settings, &matcher_config);
    if (matcher_config.simd == MATCHER_SIMD_AUTO)
        matcher_config.simd = matcher_simd_best();
    if (!matcher_simd_usable(matcher_config.simd)) {
        char message[64];
        snprintf(message, sizeof message, "simd=%s: this machine cannot run that",
                 matcher_simd_name(matcher_config.simd));
        return refuse(message);
    }
    bool second_cpu = settings.cpus > 1, copilot = second_cpu && settings.early;
    const char *reason = copilot ? copilot_init(&matcher_config) : NULL;
    if (!reason)
        reason = matcher_init(&matcher, &matcher_config);
    if (reason)
        return refuse(reason);

    struct transport_config transport_config = { .device = NULL };
    struct player_config player_config = { .settings = &settings, .matcher = matcher, .second_cpu = second_cpu,
                                           .copilot = copilot, .tsc_khz = platform_tsc_khz() };
    struct player *player;
    settings_transport(&settings, &transport_config);
    platform_random(transport_config.secret, sizeof transport_config.secret);
    platform_random(player_config.secret, sizeof player_config.secret);
    stats_clear();
    stats_add_fact("stack", transport_name());
    stats_add_fact("simd", matcher_simd_name(matcher_config.simd));
    uint64_t now_ns = platform_now_ns();
    if (!transport_init(&transport_config, now_ns))
        return refuse("no network");
    stats_add_transport();
    reason = player_init(&player, &player_config, now_ns);
    if (reason)
        return refuse(reason);
    pthread_t thread;
    if (second_cpu && pthread_create(&thread, NULL, second_thread, &settings.wait))
        return refuse("cpus=2: there is no second thread to be had");

    log_line("playing with simd=%s", matcher_simd_name(matcher_config.simd));
    enum player_verdict verdict = play(player, settings.wait);
    log_line("leaving: %s", verdict == PLAYER_ON ? "interrupted" : player_verdict_name(verdict));
    while (syslog_flush_step(platform_now_ns()))
        ;
    stats_render(statistics, sizeof statistics);
    fputs(statistics, stdout);
    return verdict == PLAYER_NETWORK_LOST ? EXIT_NETWORK_LOST : verdict == PLAYER_SERVER_LOST ? EXIT_SERVER_LOST : 0;
}
