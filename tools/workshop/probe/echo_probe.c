/* Times an echo program by sockets of this machine: from the call that sends to the return of the call that has the
 * last byte of the echo.
 *
 *     echo_probe ADDRESS PORT CORE SHOTS PLAYS
 *
 * Runs on that core (-1: any) and polls. Plays each of PLAYS (udp:4,tcp:64,...), a protocol and the bytes of a payload,
 * SHOTS times without a pause, after some that do not count. Prints "PLAY 0 NS" for each shot, as vhost_probe does.
 * Exits with a message when an echo does not come within 5 s. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { WARM_UP_SHOTS = 20, PAYLOAD_BYTES_MAX = 1472 };
static const uint64_t SHOT_NS = 5000000000;

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static int open_socket(const struct sockaddr_in *to, int type)
{
    int on = 1, fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (const struct sockaddr *)to, sizeof *to) < 0)
        err(1, "port %u", ntohs(to->sin_port));
    if (type == SOCK_STREAM && setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) < 0)
        err(1, "TCP_NODELAY");
    return fd;
}

/* Sends one payload and waits until all of it is back. Returns the time. A datagram may come late from an earlier
 * shot: each begins with its number. */
static uint64_t shoot(const char *play, int fd, int type, size_t bytes, uint16_t number)
{
    uint8_t sent[PAYLOAD_BYTES_MAX], got[PAYLOAD_BYTES_MAX];
    memset(sent, 'e', bytes);
    memcpy(sent, &number, sizeof number);
    uint64_t begun_ns = now_ns();
    if (send(fd, sent, bytes, 0) != (ssize_t)bytes)
        err(1, "%s", play);
    for (size_t back = 0; back < bytes;) {
        ssize_t count = recv(fd, got + back, bytes - back, MSG_DONTWAIT);
        if (count == 0)
            errx(1, "%s: the echo has closed the connection", play);
        if (count > 0 && (type == SOCK_STREAM || memcmp(got, sent, (size_t)count) == 0))
            back += (size_t)count;
        else if (count < 0 && errno != EAGAIN && errno != EINTR)
            err(1, "%s", play);
        else if (now_ns() - begun_ns > SHOT_NS)
            errx(1, "%s: no echo within 5 s", play);
    }
    return now_ns() - begun_ns;
}

int main(int argc, char **argv)
{
    struct sockaddr_in to = { .sin_family = AF_INET };
    if (argc != 6)
        errx(2, "usage: echo_probe ADDRESS PORT CORE SHOTS PLAYS");
    if (inet_pton(AF_INET, argv[1], &to.sin_addr) != 1)
        errx(2, "'%s' is no IPv4 address", argv[1]);
    to.sin_port = htons((uint16_t)atoi(argv[2]));
    prctl(PR_SET_PDEATHSIG, 9); /* ends with the program that started this one */
    if (atoi(argv[3]) >= 0) {
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET((unsigned)atoi(argv[3]), &one);
        if (sched_setaffinity(0, sizeof one, &one) < 0)
            err(1, "core %s", argv[3]);
    }
    for (char *rest = argv[5], *play; (play = strsep(&rest, ",")) != NULL;) {
        char protocol[4];
        size_t bytes;
        if (sscanf(play, "%3[a-z]:%zu", protocol, &bytes) != 2 || bytes < 2 || bytes > PAYLOAD_BYTES_MAX
            || (strcmp(protocol, "udp") != 0 && strcmp(protocol, "tcp") != 0))
            errx(2, "'%s': udp:BYTES or tcp:BYTES, 2 to %u bytes", play, PAYLOAD_BYTES_MAX);
        int type = protocol[0] == 't' ? SOCK_STREAM : SOCK_DGRAM, fd = open_socket(&to, type);
        for (long i = -WARM_UP_SHOTS; i < atol(argv[4]); i++) {
            uint64_t ns = shoot(play, fd, type, bytes, (uint16_t)i);
            if (i >= 0)
                printf("%s 0 %llu\n", play, (unsigned long long)ns);
        }
        close(fd);
    }
    return 0;
}
