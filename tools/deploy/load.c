/* The load of `peregrine bench`: requests over UDP, TCP or HTTP from one thread, and how long their answers took.
 *
 *     load udp|tcp|http ADDRESS PORT CONNECTIONS RATE WARMUP_S DURATION_S ANSWER_BYTES NUMBER_BYTES <REQUEST
 *
 * The last NUMBER_BYTES of each request, 0 to 8, are its number: a service may drop equal requests, or answer them out
 * of a cache.
 *
 * Every connection has one request under way. RATE 0, closed loop: the next request leaves when the answer is there.
 * Else open loop: request i of RATE a second is due at i / RATE, and its latency counts from then, whether a connection
 * was free or not. So a server that stalls is charged with all requests that it holds up (no coordinated omission).
 *
 * The answer: UDP, the next datagram; TCP, ANSWER_BYTES bytes; HTTP, one response. Its time is the kernel's stamp of
 * the last bytes that came, if there is one, so a reader that is late does not count.
 *
 * While it runs: lines of progress on standard error. At the end: one JSON object, with the histogram's buckets as
 * [upper bound in ns, count]. Exit status 0, 1 no connection could be made, 2 usage. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "base/assert.h"
#include "net/http/response.h"

enum {
    CONNECTIONS_MAX = 10000,
    REQUEST_BYTES_MAX = 1 << 20,
    READ_BYTES = 64 * 1024,
    SUB_BITS = 7, /* to each power of two: quantiles are at most 0.8 % high */
    VALUE_BITS = 40,
    BUCKET_COUNT = (VALUE_BITS - SUB_BITS + 1) << SUB_BITS,
    EVENTS = 64,
};
static const uint64_t NS_PER_S = 1000000000, LOST_NS = 1000000000, RETRY_NS = 10000000, LOOK_NS = 10000000,
                      POLL_NS = 100000;

enum protocol { PROTOCOL_UDP, PROTOCOL_TCP, PROTOCOL_HTTP };
enum state { STATE_CLOSED, STATE_CONNECTING, STATE_IDLE, STATE_BUSY };

struct connection {
    int fd;
    enum state state;
    bool counts;       /* the request was due after the warm-up */
    bool listed;       /* among the idle ones, whatever its state is by now */
    uint64_t due_ns;   /* busy: the latency counts from here */
    uint64_t began_ns; /* when the request left, or the connection was tried */
    uint64_t number;   /* the request's */
    size_t sent, got;  /* bytes of the request and of the answer */
    struct http_response response;
    struct connection *next_idle;
};

static struct {
    enum protocol protocol;
    struct sockaddr_in to;
    uint32_t connections;
    double rate;
    uint64_t begin_ns, warm_ns, end_ns;
    size_t answer_bytes, request_bytes, number_bytes;
    uint8_t request[REQUEST_BYTES_MAX];
} plan;

static struct {
    uint64_t sent, answered, lost, failed, bad_status, connects, refused, bytes, stamped, late_ns_max;
    uint64_t sum_ns, max_ns, buckets[BUCKET_COUNT];
    int last_error;
} result;

static struct connection connections[CONNECTIONS_MAX], *idle;
static uint64_t requests_begun; /* open loop: the next is due at begin_ns + this / rate */
static int poller;
static volatile sig_atomic_t interrupted;

static void interrupt(int signal)
{
    (void)signal;
    interrupted = 1;
}

_Noreturn void assert_failed(const char *file, int line, const char *condition)
{
    errx(1, "%s:%d: not true: %s", file, line, condition);
}

static uint64_t clock_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

static uint64_t now_ns(void) { return clock_ns(CLOCK_MONOTONIC); }

/* ---- the histogram: 128 buckets to each power of two ---- */

static uint32_t bucket_of(uint64_t ns)
{
    uint32_t bits = ns >> SUB_BITS ? 64 - SUB_BITS - (uint32_t)__builtin_clzll(ns) : 0;
    uint64_t bucket = bits == 0 ? ns : ((uint64_t)(bits - 1) << SUB_BITS) + (ns >> (bits - 1));
    return bucket < BUCKET_COUNT ? (uint32_t)bucket : BUCKET_COUNT - 1;
}

static uint64_t bucket_last(uint32_t bucket)
{
    uint32_t bits = bucket >> SUB_BITS;
    uint64_t low = bucket & ((1 << SUB_BITS) - 1);
    return bits == 0 ? low : ((low + (UINT64_C(1) << SUB_BITS) + 1) << (bits - 1)) - 1;
}

static uint64_t quantile(double share)
{
    uint64_t need = (uint64_t)((double)result.answered * share), seen = 0;
    for (uint32_t i = 0; i < BUCKET_COUNT; i++)
        if ((seen += result.buckets[i]) > need)
            return bucket_last(i) < result.max_ns ? bucket_last(i) : result.max_ns;
    return result.max_ns;
}

/* ---- connections ---- */

static void make_idle(struct connection *c)
{
    c->state = STATE_IDLE;
    if (c->listed)
        return;
    c->listed = true;
    c->next_idle = idle;
    idle = c;
}

static void drop(struct connection *c)
{
    close(c->fd); /* leaves epoll's set, too */
    c->state = STATE_CLOSED;
    c->began_ns = now_ns();
}

static void fail(struct connection *c)
{
    result.last_error = errno;
    if (c->state == STATE_BUSY && c->counts)
        result.failed++;
    else if (c->state == STATE_CONNECTING)
        result.refused++;
    drop(c);
}

static void open_connection(struct connection *c)
{
    bool udp = plan.protocol == PROTOCOL_UDP;
    int on = 1;
    c->fd = socket(AF_INET, (udp ? SOCK_DGRAM : SOCK_STREAM) | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (c->fd < 0)
        err(1, "connection %td of %u", c - connections + 1, plan.connections);
    c->began_ns = now_ns();
    c->state = STATE_CONNECTING;
    setsockopt(c->fd, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on); /* without it the clock is read later */
    if (!udp)
        setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    struct epoll_event event = { .events = EPOLLIN | EPOLLOUT | EPOLLET, .data.ptr = c };
    if (epoll_ctl(poller, EPOLL_CTL_ADD, c->fd, &event) < 0)
        err(1, "epoll_ctl");
    if (connect(c->fd, (const struct sockaddr *)&plan.to, sizeof plan.to) < 0 && errno != EINPROGRESS)
        fail(c);
    else if (udp)
        make_idle(c);
}

/* ---- requests ---- */

static void send_rest(struct connection *c)
{
    memcpy(plan.request + plan.request_bytes - plan.number_bytes, &c->number, plan.number_bytes);
    while (c->sent < plan.request_bytes) {
        ssize_t count = send(c->fd, plan.request + c->sent, plan.request_bytes - c->sent, MSG_NOSIGNAL);
        if (count < 0) {
            if (errno != EAGAIN && errno != EINTR)
                fail(c);
            return;
        }
        c->sent += (size_t)count;
    }
}

static void begin_request(struct connection *c, uint64_t due_ns)
{
    c->state = STATE_BUSY;
    c->due_ns = due_ns;
    c->began_ns = now_ns();
    c->counts = due_ns >= plan.warm_ns;
    c->sent = c->got = 0;
    c->number = requests_begun;
    http_response_begin(&c->response);
    if (c->counts) {
        result.sent++;
        if (c->began_ns - due_ns > result.late_ns_max)
            result.late_ns_max = c->began_ns - due_ns;
    }
    send_rest(c);
}

static void end_request(struct connection *c, uint64_t at_ns)
{
    if (c->counts) {
        uint64_t ns = at_ns > c->due_ns ? at_ns - c->due_ns : 0;
        result.answered++;
        result.bytes += c->got;
        result.sum_ns += ns;
        result.max_ns = ns > result.max_ns ? ns : result.max_ns;
        result.buckets[bucket_of(ns)]++;
        result.bad_status += plan.protocol == PROTOCOL_HTTP && c->response.status / 100 != 2;
    }
    if (plan.protocol == PROTOCOL_HTTP && !c->response.keep_alive) {
        drop(c);
        open_connection(c);
    } else {
        make_idle(c);
    }
}

/* Reads once. Returns the bytes, 0 at the end, -1 if nothing is there. Stores when the newest came. */
static ssize_t receive(struct connection *c, uint8_t *data, uint64_t *at_ns)
{
    union {
        struct cmsghdr head;
        uint8_t bytes[CMSG_SPACE(sizeof(struct timespec))];
    } control;
    struct iovec part = { data, READ_BYTES };
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control
    };
    ssize_t count = recvmsg(c->fd, &message, 0);
    *at_ns = now_ns();
    struct cmsghdr *head = count > 0 ? CMSG_FIRSTHDR(&message) : NULL;
    if (head && head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_TIMESTAMPNS) {
        struct timespec stamp;
        memcpy(&stamp, CMSG_DATA(head), sizeof stamp);
        uint64_t age_ns = clock_ns(CLOCK_REALTIME) - ((uint64_t)stamp.tv_sec * NS_PER_S + (uint64_t)stamp.tv_nsec);
        if (stamp.tv_sec && age_ns < NS_PER_S) { /* else the clock was set */
            *at_ns -= age_ns;
            result.stamped += c->state == STATE_BUSY && c->counts;
        }
    }
    return count;
}

/* Takes bytes of an answer. Returns true if it is complete, or is none and the connection is gone. */
static bool take(struct connection *c, const uint8_t *data, size_t bytes, uint64_t at_ns)
{
    c->got += bytes;
    if (plan.protocol != PROTOCOL_HTTP) {
        if (plan.protocol == PROTOCOL_TCP && c->got < plan.answer_bytes)
            return false;
        end_request(c, at_ns);
        return true;
    }
    const uint8_t *at = data, *end = data + bytes;
    struct bytes body;
    for (enum http_step step; (step = http_response_step(&c->response, &at, end, &body)) != HTTP_MORE;)
        if (step == HTTP_DONE) {
            end_request(c, at_ns);
            return true;
        } else if (step == HTTP_BAD) {
            errno = EPROTO;
            fail(c);
            return true;
        }
    return false;
}

static void read_all(struct connection *c)
{
    static uint8_t data[READ_BYTES];
    while (c->state == STATE_BUSY || c->state == STATE_IDLE) {
        uint64_t at_ns;
        ssize_t count = receive(c, data, &at_ns);
        if (count < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (count <= 0 && plan.protocol != PROTOCOL_UDP) {
            if (count == 0)
                errno = ECONNRESET;
            if (c->state == STATE_BUSY && plan.protocol == PROTOCOL_HTTP && count == 0
                && http_response_finish(&c->response) == HTTP_DONE) {
                c->response.keep_alive = false;
                end_request(c, at_ns);
                return;
            }
            fail(c);
            return;
        }
        if (count < 0) { /* UDP: nobody listens */
            fail(c);
            return;
        }
        if (c->state == STATE_BUSY && take(c, data, (size_t)count, at_ns))
            return;
    }
}

static void handle(struct connection *c, uint32_t events)
{
    if (c->state == STATE_CONNECTING && events & (EPOLLOUT | EPOLLERR | EPOLLHUP)) {
        socklen_t bytes = sizeof errno;
        int error = 0;
        getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &bytes);
        if (error) {
            errno = error;
            fail(c);
            return;
        }
        result.connects++;
        make_idle(c);
    }
    if (events & EPOLLOUT && c->state == STATE_BUSY)
        send_rest(c);
    if (events & (EPOLLIN | EPOLLERR | EPOLLHUP))
        read_all(c);
}

/* ---- the run ---- */

/* Looks after what waits: requests without an answer, connections to be made again. */
static void look_after(uint64_t now)
{
    for (struct connection *c = connections; c < connections + plan.connections; c++)
        if (c->state == STATE_BUSY && now - c->began_ns > LOST_NS && now > c->began_ns) {
            result.lost += c->counts;
            drop(c); /* an answer that comes later must not count for the next request */
        } else if (c->state == STATE_CLOSED && now - c->began_ns > RETRY_NS && now < plan.end_ns) {
            open_connection(c);
        } else if (c->state == STATE_CONNECTING && now - c->began_ns > LOST_NS) {
            errno = ETIMEDOUT;
            fail(c);
        }
}

static uint64_t due_at(uint64_t number)
{
    return plan.begin_ns + (uint64_t)((double)number / plan.rate * (double)NS_PER_S);
}

static void begin_what_is_due(uint64_t now)
{
    while (idle && now < plan.end_ns) {
        uint64_t due_ns = plan.rate > 0 ? due_at(requests_begun) : now;
        if (due_ns > now)
            return;
        struct connection *c = idle;
        idle = c->next_idle;
        c->listed = false;
        if (c->state == STATE_IDLE) {
            requests_begun++;
            begin_request(c, due_ns);
        }
    }
}

static bool any_busy(void)
{
    for (uint32_t i = 0; i < plan.connections; i++)
        if (connections[i].state == STATE_BUSY)
            return true;
    return false;
}

static void show_progress(uint64_t now)
{
    static uint64_t shown_ns, answered;
    bool terminal = isatty(STDERR_FILENO);
    uint64_t each_ns = terminal ? NS_PER_S : 10 * NS_PER_S;
    shown_ns = shown_ns ? shown_ns : plan.begin_ns;
    if (now - shown_ns < each_ns)
        return;
    double seconds = (double)(now - shown_ns) / (double)NS_PER_S;
    fprintf(stderr, "%s%3.0f s%s  %.0f/s  p50 %.1f  p99 %.1f us  lost %" PRIu64 "  failed %" PRIu64 "%s",
            terminal ? "\r\033[K" : "", (double)(now - plan.begin_ns) / (double)NS_PER_S,
            now < plan.warm_ns ? " (warm-up)" : "", (double)(result.answered - answered) / seconds,
            (double)quantile(0.5) / 1e3, (double)quantile(0.99) / 1e3, result.lost, result.failed,
            terminal ? "" : "\n");
    shown_ns = now;
    answered = result.answered;
}

/* Returns how long the thread may sleep. It polls for POLL_NS after an event, and before a request is due. A service of
 * microseconds finds it awake; one that takes longer has the CPU meanwhile. */
static struct timespec time_to_sleep(uint64_t now, uint64_t event_ns)
{
    uint64_t until = now + LOOK_NS, due_ns = plan.rate > 0 && idle ? due_at(requests_begun) : until;
    until = due_ns < until ? due_ns : until;
    bool polls = now - event_ns < POLL_NS || until < now + POLL_NS;
    return (struct timespec){ .tv_nsec = polls ? 0 : (long)(until - now - POLL_NS) };
}

static void run(void)
{
    uint64_t looked_ns = 0, event_ns = 0;
    for (uint64_t now = now_ns(); !interrupted && (now < plan.end_ns || (now < plan.end_ns + LOST_NS && any_busy()));
         now = now_ns()) {
        begin_what_is_due(now);
        struct timespec sleep = time_to_sleep(now, event_ns);
        struct epoll_event events[EVENTS];
        int count = epoll_pwait2(poller, events, EVENTS, &sleep, NULL);
        for (int i = 0; i < count; i++)
            handle(events[i].data.ptr, events[i].events);
        event_ns = count > 0 ? now_ns() : event_ns;
        if (now - looked_ns > LOOK_NS) {
            look_after(now);
            show_progress(now);
            looked_ns = now;
        }
    }
    if (isatty(STDERR_FILENO))
        fputs("\r\033[K", stderr);
}

/* Makes the first connections. One must succeed within a second. */
static void connect_all(void)
{
    for (uint32_t i = 0; i < plan.connections; i++)
        open_connection(&connections[i]);
    for (uint64_t end = now_ns() + LOST_NS; now_ns() < end;) {
        struct epoll_event events[EVENTS];
        int count = epoll_wait(poller, events, EVENTS, 10);
        for (int i = 0; i < count; i++)
            handle(events[i].data.ptr, events[i].events);
        bool waits = false;
        for (uint32_t i = 0; i < plan.connections; i++)
            waits |= connections[i].state == STATE_CONNECTING;
        if (!waits)
            break;
    }
    if (!idle)
        errx(1, "no connection to port %u: %s", ntohs(plan.to.sin_port),
             result.last_error ? strerror(result.last_error) : strerror(ETIMEDOUT));
    result.refused = 0;
}

static void print_result(void)
{
    uint64_t now = now_ns(), until = now < plan.end_ns ? now : plan.end_ns;
    double seconds = until > plan.warm_ns ? (double)(until - plan.warm_ns) / (double)NS_PER_S : 0;
    uint64_t due = (uint64_t)((double)(until - plan.begin_ns) / (double)NS_PER_S * plan.rate);
    uint64_t waiting = due > requests_begun ? due - requests_begun : 0;
    printf("{\"seconds\": %.3f, \"sent\": %" PRIu64 ", \"answered\": %" PRIu64 ", \"lost\": %" PRIu64
           ", \"failed\": %" PRIu64 ", \"bad_status\": %" PRIu64 ", \"waiting\": %" PRIu64 ", \"connects\": %" PRIu64
           ", \"refused\": %" PRIu64 ", \"bytes\": %" PRIu64 ", \"kernel_stamped\": %" PRIu64
           ", \"late_max_ns\": %" PRIu64 ", \"mean_ns\": %.1f, \"max_ns\": %" PRIu64
           ", \"error\": \"%s\", \"buckets\": [",
           seconds, result.sent, result.answered, result.lost, result.failed, result.bad_status, waiting,
           result.connects, result.refused, result.bytes, result.stamped, result.late_ns_max,
           result.answered ? (double)result.sum_ns / (double)result.answered : 0, result.max_ns,
           result.last_error ? strerror(result.last_error) : "");
    const char *comma = "";
    for (uint32_t i = 0; i < BUCKET_COUNT; i++)
        if (result.buckets[i]) {
            printf("%s[%" PRIu64 ", %" PRIu64 "]", comma, bucket_last(i), result.buckets[i]);
            comma = ", ";
        }
    puts("]}");
}

/* Lets this process have as many connections as it may allow itself: a shell's 1024 are fewer than CONNECTIONS_MAX. */
static void allow_connections(void)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
}

static double number(const char *text, double min, double max)
{
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end || !(value >= min && value <= max))
        errx(2, "'%s' is no number of %g to %g", text, min, max);
    return value;
}

int main(int argc, char **argv)
{
    static const char *const protocols[] = { "udp", "tcp", "http" };
    if (argc != 10)
        errx(2, "usage: load udp|tcp|http ADDRESS PORT CONNECTIONS RATE WARMUP_S DURATION_S ANSWER_BYTES NUMBER_BYTES "
                "<REQUEST");
    size_t protocol = 0;
    while (protocol < 3 && strcmp(argv[1], protocols[protocol]) != 0)
        protocol++;
    if (protocol == 3)
        errx(2, "'%s' is none of udp, tcp, http", argv[1]);
    plan.protocol = (enum protocol)protocol;
    plan.to = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons((uint16_t)number(argv[3], 1, 65535)) };
    if (inet_pton(AF_INET, argv[2], &plan.to.sin_addr) != 1)
        errx(2, "'%s' is no IPv4 address", argv[2]);
    plan.connections = (uint32_t)number(argv[4], 1, CONNECTIONS_MAX);
    plan.rate = number(argv[5], 0, 1e8);
    double warmup_s = number(argv[6], 0, 1e6), duration_s = number(argv[7], 0, 1e6);
    plan.request_bytes = fread(plan.request, 1, sizeof plan.request, stdin);
    plan.answer_bytes = (size_t)number(argv[8], 0, INT_MAX);
    plan.number_bytes = (size_t)number(argv[9], 0, sizeof connections->number);
    if (plan.number_bytes > plan.request_bytes)
        errx(2, "'%s' is more than the request has", argv[9]);
    signal(SIGINT, interrupt);
    signal(SIGTERM, interrupt);
    prctl(PR_SET_PDEATHSIG, SIGTERM); /* nobody would read the result */
    allow_connections();
    if ((poller = epoll_create1(EPOLL_CLOEXEC)) < 0)
        err(1, "epoll");
    connect_all();
    plan.begin_ns = now_ns();
    plan.warm_ns = plan.begin_ns + (uint64_t)(warmup_s * (double)NS_PER_S);
    plan.end_ns = plan.warm_ns + (uint64_t)(duration_s * (double)NS_PER_S);
    run();
    print_result();
    return 0;
}
