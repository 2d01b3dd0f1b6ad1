/* Fuzzes the whole player against a hostile server. The player and its stack are one end of a wire in memory. The other
 * end is a second stack, whose application the script plays. Time is virtual.
 *
 * Each action of a script is a byte of kind, a byte that chooses the connection or the amount, and its data. After the
 * script the server is good again: it accepts connections, sends digits, answers each POST. Old connections are reset,
 * or stay silent.
 *
 * Asserts after each step the invariants of both stacks and of the player. Every answer is accounted for. The player
 * holds no more than its share of connections, and stays in the game. Asserts at the end that the player found the good
 * server within RECOVERY_NS, and sent no POST twice to it. The stack then gives back every buffer. */
#include <stdio.h>

#include "app/player/answer_set.h"
#include "app/player/player.h"
#include "app/player/send_queue.h"
#include "app/player/submit.h"
#include "base/siphash.h"
#include "net/own/transport.c"
#include "net/tcp/sockets.h"
#include "tests/fuzz/fuzz.h"
#include "tests/lib/netdev_memory.h"
#include "tests/lib/player_setup.h"
#include "tests/lib/random.h"

#define BEGIN_NS    (10 * NS_PER_S)
#define SCRIPT_NS   (20 * NS_PER_S) /* the virtual time of a script, at most */
/* A silent feed lasts 2 s, a submission 5 s, and a SYN lost twice 3 s. */
#define RECOVERY_NS (20 * NS_PER_S)
#define TURN_NS     UINT64_C(50000) /* one way */
#define BURST_NS    (100 * NS_PER_MS)

enum {
    OURS = 0x0a000001,
    SERVER = 0x0a000002,
    FEED = 10001,
    SUBMIT = 10002,
    PEERS = 16,
    REQUEST_BYTES_MAX = 2048,
    ACTIONS_MAX = 150,
    CONNECTIONS_MAX = 5, /* an input stream, submit, and 3 that the player has closed: docs/resources.md */
    BURST_DIGITS = 60,
    POSTS_MAX = 4096,
    POSTS_WANTED = 3,
};

/* A connection of the server. */
struct peer {
    bool used, good; /* good: served as by a good server */
    bool reading;
    int id;
    uint16_t port;
    uint32_t posts; /* requests that are complete and not answered */
    bool streaming; /* the head of the response with digits is sent */
    char request[REQUEST_BYTES_MAX];
    uint32_t request_bytes;
};

static struct netdev_memory ours, theirs;
static struct net_stack *server;
static void *server_memory;
static int listeners[2];
static struct peer peers[PEERS];
static uint64_t now_ns, burst_next_ns, steps;
static uint32_t lose_to_server, lose_to_player;
static bool hold_next, holding, repeat_next, is_good;
static uint8_t held[NETDEV_FRAME_BYTES_MAX];
static uint32_t held_bytes;
static uint64_t good_posts[POSTS_MAX];
static uint32_t good_post_count;

_Noreturn void assert_failed(const char *file, int line, const char *condition)
{
    fprintf(stderr, "assertion failed: %s:%d: %s, at %llu ns\n", file, line, condition, (unsigned long long)now_ns);
    abort();
}

/* ---- The wire ---- */

static void feed_player(const uint8_t *frame, uint32_t bytes)
{
    netdev_memory_feed(&ours, frame, bytes, false);
    if (repeat_next)
        netdev_memory_feed(&ours, frame, bytes, false);
    repeat_next = false;
}

static void release_held(void)
{
    if (holding)
        feed_player(held, held_bytes);
    holding = false;
}

static bool carry(void)
{
    static uint8_t frame[NETDEV_FRAME_BYTES_MAX];
    bool moved = false;
    for (uint32_t bytes; (bytes = netdev_memory_take(&ours, frame)) != 0; moved = true) {
        if (lose_to_server > 0)
            lose_to_server--;
        else
            netdev_memory_feed(&theirs, frame, bytes, false);
    }
    for (uint32_t bytes; (bytes = netdev_memory_take(&theirs, frame)) != 0; moved = true) {
        if (lose_to_player > 0) {
            lose_to_player--;
        } else if (hold_next && !holding) {
            memcpy(held, frame, held_bytes = bytes);
            holding = true;
            hold_next = false;
        } else {
            feed_player(frame, bytes);
            release_held();
        }
    }
    return moved;
}

/* ---- The server ---- */

static void server_write(struct peer *p, const void *data, size_t bytes)
{
    if (p->used)
        tcp_write(server, p->id, data, bytes, now_ns);
}

static void server_say(struct peer *p, const char *text) { server_write(p, text, strlen(text)); }

/* Remembers a POST's body that came to the good server, and asserts that it is new. */
static void note_good_post(const char *body, size_t bytes)
{
    uint64_t hash = siphash((struct siphash_key){ 1, 2 }, body, bytes);
    for (uint32_t i = 0; i < good_post_count; i++)
        ASSERT(good_posts[i] != hash);
    ASSERT(good_post_count < POSTS_MAX);
    good_posts[good_post_count++] = hash;
}

/* Takes the complete requests from the front of the bytes read. */
static void take_requests(struct peer *p)
{
    for (;;) {
        const char *end = strstr(p->request, "\r\n\r\n"), *length = strstr(p->request, "Content-Length: ");
        if (end == NULL)
            return;
        size_t head = (size_t)(end - p->request) + 4,
               body = length != NULL && length < end ? (size_t)atoi(length + 16) : 0;
        ASSERT(body <= 1024);
        if (p->request_bytes < head + body)
            return;
        p->posts++;
        if (p->good && p->port == SUBMIT)
            note_good_post(p->request + head, body);
        p->request_bytes -= (uint32_t)(head + body);
        memmove(p->request, p->request + head + body, p->request_bytes);
        p->request[p->request_bytes] = '\0';
    }
}

static void read_requests(struct peer *p)
{
    int64_t got;
    while (p->used && p->reading
           && (got = tcp_read(server, p->id, p->request + p->request_bytes, REQUEST_BYTES_MAX - 1 - p->request_bytes,
                              false, now_ns))
                  > 0) {
        p->request_bytes += (uint32_t)got;
        p->request[p->request_bytes] = '\0';
        take_requests(p);
        ASSERT(p->request_bytes < REQUEST_BYTES_MAX - 1);
    }
}

/* Sends digits at random, and a multiple of 823 at their end, most often a new one. */
static void send_digits(struct peer *p)
{
    char digits[BURST_DIGITS + 1];
    for (int i = 0; i < BURST_DIGITS; i++)
        digits[i] = (char)('0' + random_below(10));
    snprintf(digits + BURST_DIGITS - 6, 7, "%u", 823 * (unsigned)(122 + random_below(1090)));
    if (!p->streaming)
        server_say(p, "HTTP/1.1 200 OK\r\n\r\n");
    p->streaming = true;
    server_write(p, digits, BURST_DIGITS);
}

static void be_good(struct peer *p)
{
    if (p->port == FEED && p->posts > 0 && now_ns >= burst_next_ns)
        send_digits(p);
    for (; p->port == SUBMIT && p->posts > 0; p->posts--)
        server_say(p, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n+8\n");
}

static void accept_peers(void)
{
    for (int i = 0; i < 2; i++) {
        int id;
        while (listeners[i] >= 0 && (id = tcp_accept(server, listeners[i])) >= 0) {
            struct peer *p = NULL;
            for (int k = 0; k < PEERS && p == NULL; k++)
                p = peers[k].used ? NULL : &peers[k];
            if (p == NULL) {
                tcp_reset(server, id, now_ns);
                continue;
            }
            memset(p, 0, sizeof *p);
            p->used = p->reading = true;
            p->good = is_good;
            p->id = id;
            p->port = i == 0 ? FEED : SUBMIT;
        }
    }
}

static void serve(void)
{
    accept_peers();
    for (int i = 0; i < PEERS; i++) {
        struct peer *p = &peers[i];
        if (!p->used)
            continue;
        read_requests(p);
        if (p->good)
            be_good(p);
        enum tcp_state state = tcp_state(server, p->id);
        if (state == TCP_CLOSED || state == TCP_TIME_WAIT || (p->good && state == TCP_CLOSE_WAIT)) {
            tcp_close(server, p->id, now_ns);
            p->used = false;
        }
    }
    if (now_ns >= burst_next_ns)
        burst_next_ns = now_ns + BURST_NS;
}

/* ---- Time ---- */

/* Returns the count of the player's connections, except those whose end its next turn reports. */
static uint32_t connections_held(void)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < own.stack->tcp.capacity.connection_count; i++)
        count += own.stack->tcp.connections[i].used && own.stack->tcp.connections[i].state != TCP_CLOSED;
    return count;
}

static void check(void)
{
    player_check();
    net_stack_check(own.stack);
    net_stack_check(server);
    ASSERT(connections_held() <= CONNECTIONS_MAX);
    ASSERT(answer_set_counters.entered
           == submit_counters.unanswered + submit_counters.dropped_expired + submit_counters.dropped_no_room
                  + submit_response_ns.count + send_queue_waiting_count() + send_queue_unanswered_count());
}

/* Plays a turn of both ends. Returns true if frames moved. */
static bool turn(void)
{
    steps++;
    enum program_verdict verdict = player_turn(now_ns);
    ASSERT(verdict == PROGRAM_ON);
    bool moved = carry();
    net_input(server, now_ns);
    serve();
    net_idle(server, now_ns);
    moved |= carry();
    check();
    return moved;
}

static void run(uint64_t for_ns)
{
    for (uint64_t end_ns = now_ns + for_ns; now_ns < end_ns;) {
        if (turn()) {
            now_ns += TURN_NS;
            continue;
        }
        uint64_t next_ns = player_next_deadline_ns(now_ns), server_ns = net_next_deadline_ns(server);
        next_ns = server_ns < next_ns ? server_ns : next_ns;
        if (is_good && burst_next_ns < next_ns)
            next_ns = burst_next_ns;
        next_ns = next_ns < end_ns ? next_ns : end_ns;
        now_ns = next_ns > now_ns + TURN_NS ? next_ns : now_ns + TURN_NS;
    }
}

/* ---- The script ---- */

static void respond(struct peer *p, uint8_t variant)
{
    static const char *const responses[] = {
        "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n+8\n",
        "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 3\r\n\r\n+8\n",
        "HTTP/1.0 200 OK\r\n\r\n+8\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n+8\n\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n+8",
        "HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 60\r\n\r\n123456789012345678901234567890123456789012345678901234567890",
        "HTTP/1.1 100 Continue\r\n\r\n",
        "HTTP/1.1 204 No Content\r\n\r\n",
        "HTTP/1.1 302 Found\r\nLocation: /\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 500 No\r\nContent-Length: 6\r\n\r\nwrong\n",
        "HTTP/1.1 503 No\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nwrong\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n+8\n",
        "SSH-2.0-OpenSSH_9.2p1\r\n",
        "HTTP/1.1 200 OK\r\nX: ",
    };
    server_say(p, responses[variant % ARRAY_COUNT(responses)]);
    p->posts -= p->posts > 0;
}

static void toggle_listener(int which)
{
    if (listeners[which] >= 0) {
        tcp_unlisten(server, listeners[which], now_ns);
        listeners[which] = -1;
    } else {
        listeners[which] = tcp_listen(server, which == 0 ? FEED : SUBMIT, 8, NULL);
        ASSERT(listeners[which] >= 0);
    }
}

/* Plays the action `kind` with its argument. Returns the bytes of data that it took. */
static size_t act(uint8_t kind, uint8_t argument, const uint8_t *data, size_t bytes)
{
    struct peer *p = &peers[argument % PEERS];
    size_t part = min_size(bytes, argument >> 4);
    switch (kind % 18) {
    case 0:
        run((uint64_t)argument * 200000 + 1);
        return 0;
    case 1:
    case 2:
        run((uint64_t)argument * 20 * NS_PER_MS);
        return 0;
    case 3:
    case 4:
        send_digits(p);
        return 0;
    case 5:
        respond(p, 0);
        return 0;
    case 6:
    case 7:
        respond(p, argument >> 4);
        return 0;
    case 8:
        server_write(p, data, part);
        return part;
    case 9:
        server_write(p, "1", 1);
        return 0;
    case 10:
        if (p->used)
            tcp_shutdown(server, p->id, now_ns);
        return 0;
    case 11:
        if (p->used)
            tcp_reset(server, p->id, now_ns);
        p->used = false;
        return 0;
    case 12:
        if (p->used)
            tcp_close(server, p->id, now_ns);
        p->used = false;
        return 0;
    case 13:
        toggle_listener(argument & 1);
        return 0;
    case 14:
        lose_to_server = argument & 7;
        lose_to_player = argument >> 3 & 7;
        return 0;
    case 15:
        hold_next = true;
        return 0;
    case 16:
        repeat_next = true;
        p->reading = argument & 16;
        return 0;
    default:
        netdev_memory_feed(&ours, data, (uint32_t)part, false);
        return part;
    }
}

/* ---- The whole ---- */

static struct net_config server_config(void)
{
    struct net_config config = {
        .capacity = {
            .connection_count = 64,
            .listener_count = 2,
            .half_open_count = 16,
            .time_wait_count = 64,
            .segment_count = 64,
            .receive_bytes = 8192,
            .send_bytes = 16384,
        },
        .device = &theirs.device,
        .address = SERVER,
        .mask = 0xffffff00,
    };
    random_secret(9, config.secret, sizeof config.secret);
    tcp_policy_default(&config.policy);
    return config;
}

static void begin(void)
{
    static const char words[] = "feed=10.0.0.2:10001 submit=10.0.0.2:10002 user=u passwd=p simd=scalar n=9 m=823 "
                                "feed.timeout=2 server.timeout=0 submit.timeout=0 breaker=0 wait=sleep";
    static bool has_tables; /* the matcher's tables take longer to compute than a script takes */
    struct net_config config = server_config();
    size_t bytes = net_stack_bytes(&config.capacity);
    now_ns = BEGIN_NS;
    netdev_memory_init(&ours, (const uint8_t[]){ 2, 0, 0, 0, 0, 1 }, false);
    netdev_memory_init(&theirs, (const uint8_t[]){ 2, 0, 0, 0, 0, 2 }, false);
    if (server_memory == NULL)
        server_memory = aligned_alloc(NET_STACK_ALIGN, bytes);
    server = net_stack_init(server_memory, bytes, &config, now_ns, NULL);
    ASSERT(server != NULL);
    memset(&own, 0, sizeof own);
    own.read_connection = -1;
    struct transport_config transport = { .device = &ours.device, .address = OURS, .mask = 0xffffff00 };
    random_secret(7, transport.secret, sizeof transport.secret);
    ASSERT(transport_init(&transport, now_ns));
    player_setup(words, has_tables, 2000000, now_ns);
    has_tables = true;

    memset(peers, 0, sizeof peers);
    listeners[0] = listeners[1] = -1;
    toggle_listener(0);
    toggle_listener(1);
    lose_to_server = lose_to_player = 0;
    hold_next = holding = repeat_next = is_good = false;
    good_post_count = 0;
    burst_next_ns = now_ns;
    random_state = 1;
}

/* Makes the server good, and asserts that the player finds it. */
static void recover(bool resets)
{
    lose_to_server = lose_to_player = 0;
    hold_next = false;
    release_held();
    is_good = true;
    for (int i = 0; i < PEERS; i++) {
        if (resets && peers[i].used) {
            tcp_reset(server, peers[i].id, now_ns);
            peers[i].used = false;
        }
        peers[i].reading = true;
    }
    for (int i = 0; i < 2; i++)
        if (listeners[i] < 0)
            toggle_listener(i);
    uint64_t responses = submit_counters.responses_2xx;
    for (uint64_t end_ns = now_ns + RECOVERY_NS;
         good_post_count < POSTS_WANTED || submit_counters.responses_2xx < responses + POSTS_WANTED;) {
        ASSERT(now_ns < end_ns);
        run(BURST_NS);
    }
}

/* Ends every connection of the player's stack, and asserts that no buffer is left. */
static void leave(void)
{
    struct transport_event event;
    while (transport_poll(now_ns, &event)) {
    }
    for (int id = 0; id < TRANSPORT_CONNECTION_COUNT_MAX; id++)
        transport_abort(id, now_ns);
    for (int i = 0; i < 70; i++) {
        while (transport_poll(now_ns, &event)) {
        }
        transport_idle(now_ns);
        carry();
        now_ns += NS_PER_S;
    }
    ASSERT(connections_held() == 0);
    ASSERT(ours.pool.rx_out_count == 0);
    ASSERT(frame_pool_tx_held_count(&ours.pool) == 0);
}

static void print_steps(void) { fprintf(stderr, "server_fuzz: %llu steps\n", (unsigned long long)steps); }

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (steps == 0)
        atexit(print_steps);
    begin();
    bool resets = size > 0 && (*data & 1);
    run(10 * NS_PER_MS);
    for (int i = 0; i < ACTIONS_MAX && size >= 2 && now_ns < BEGIN_NS + SCRIPT_NS; i++) {
        size_t taken = 2 + act(data[0], data[1], data + 2, size - 2);
        data += taken;
        size -= taken;
        run(TURN_NS);
        player_check_matcher();
    }
    recover(resets);
    player_settle(now_ns);
    player_check_matcher();
    leave();
    return 0;
}
