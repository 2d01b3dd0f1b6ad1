/* libperegrine-net.so: the stacks of the handles of host/library/peregrine_net.h. Sockets are in
 * host/library/sockets.c; host/library/words.c reads the words. */
#include "host/library/internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/time.h"
#include "host/library/words.h"

enum {
    CONNECTION_COUNT = 192, /* most sockets of a suite's test are connections */
    LISTENER_COUNT = 64,
    HALF_OPEN_COUNT = 256,
    TIME_WAIT_COUNT = 1024,
    SEGMENT_COUNT = 4096, /* a send buffer of 2 MiB in segments of 536 bytes */
};
/* The lead of the stack's clock over the caller's. Nothing in the stack happens at 0, because some of its times use 0
 * for "never". */
#define CLOCK_AHEAD_NS NS_PER_S
#define NOW_US_MAX     (UINT64_C(1) << 53) /* 285 years; with any timeout added, nanoseconds still fit 64 bits */

/* Ends the process with a message: the mistake is the library's own. */
_Noreturn void assert_failed(const char *file, int line, const char *condition)
{
    fprintf(stderr, "libperegrine-net: %s:%d: assertion failed: %s\n", file, line, condition);
    abort();
}

static uint32_t power_of_two(uint32_t bytes)
{
    uint32_t power = 4096;
    while (power < bytes)
        power *= 2;
    ASSERT((power & (power - 1)) == 0);
    return power;
}

/* Returns the bytes that a ring keeps spare, so that a SYN can offer the whole buffer. See tcp_receive_buffer_of. */
static uint32_t scale_unit(const struct tcp_policy *policy)
{
    if (!policy->window_scaling)
        return 0;
    return policy->window_scale <= 14 ? UINT32_C(1) << policy->window_scale : policy->receive_buffer_bytes >> 15;
}

static struct net_capacity capacity_of(const struct tcp_policy *policy)
{
    return (struct net_capacity){
        .connection_count = CONNECTION_COUNT,
        .listener_count = LISTENER_COUNT,
        .half_open_count = HALF_OPEN_COUNT,
        .time_wait_count = TIME_WAIT_COUNT,
        .segment_count = SEGMENT_COUNT,
        .receive_bytes = power_of_two(policy->receive_buffer_bytes + scale_unit(policy)),
        .send_bytes = power_of_two(policy->send_buffer_bytes),
    };
}

void pnet_close(struct pnet *net)
{
    if (net != NULL) {
        free(net->buffers);
        free(net->memory);
        free(net);
    }
}

/* Makes a stack, or returns NULL and a message. */
static struct pnet *open_stack(struct pnet_words *words, const char **message)
{
    struct net_config *config = &words->config;
    ASSERT(words->prefix_bits >= 1 && words->prefix_bits <= 32);
    config->capacity = capacity_of(&config->policy);
    size_t bytes = net_stack_bytes(&config->capacity);
    *message = "out of memory";
    struct pnet *net = calloc(1, sizeof *net);
    if (net == NULL)
        return NULL;
    net->memory = aligned_alloc(NET_STACK_ALIGN, bytes);
    net->buffers = aligned_alloc(64, netdev_ip_jumbo_bytes(words->mtu_bytes));
    net->now_ns = words->start_us * 1000 + CLOCK_AHEAD_NS;
    if (net->memory != NULL && net->buffers != NULL) {
        netdev_ip_init_jumbo(&net->device, words->mtu_bytes, net->buffers);
        config->device = &net->device.device;
        net->stack = net_stack_init(net->memory, bytes, config, net->now_ns, message);
    }
    if (net->stack == NULL) {
        pnet_close(net);
        return NULL;
    }
    net->stack->ip.interface.mask = UINT32_MAX << (32 - words->prefix_bits); /* the routes stay: no ARP */
    return net;
}

struct pnet *pnet_open(const char *words, const char **why)
{
    struct pnet_words read = { 0 };
    const char *message = pnet_words_read(words, &read);
    struct pnet *net = message == NULL ? open_stack(&read, &message) : NULL;
    if (net == NULL && why != NULL)
        *why = message;
    return net;
}

int pnet_packet_in(struct pnet *net, const void *packet, size_t bytes)
{
    if (net == NULL)
        return -EINVAL;
    if (packet == NULL)
        return -EFAULT;
    if (bytes > NETDEV_IP_PACKET_BYTES_MAX)
        return -EMSGSIZE;
    if (!netdev_ip_push(&net->device, packet, bytes))
        return -ENOBUFS;
    net_input(net->stack, net->now_ns);
    net_idle(net->stack, net->now_ns);
    netdev_ip_check(&net->device);
    return 0;
}

int pnet_packet_out(struct pnet *net, void *packet, size_t room)
{
    const uint8_t *data;
    if (net == NULL)
        return -EINVAL;
    if (packet == NULL)
        return -EFAULT;
    if (room < net->device.device.mtu_bytes)
        return -EMSGSIZE;
    size_t bytes = netdev_ip_pop(&net->device, &data);
    ASSERT(bytes <= room);
    if (bytes > 0)
        memcpy(packet, data, bytes);
    netdev_ip_release(&net->device);
    return (int)bytes;
}

int pnet_set_time_us(struct pnet *net, uint64_t now_us)
{
    if (net == NULL || now_us > NOW_US_MAX || now_us < pnet_time_us(net))
        return -EINVAL;
    net->now_ns = now_us * 1000 + CLOCK_AHEAD_NS;
    return 0;
}

uint64_t pnet_time_us(const struct pnet *net) { return net != NULL ? (net->now_ns - CLOCK_AHEAD_NS) / 1000 : 0; }

uint64_t pnet_next_timer_us(const struct pnet *net)
{
    uint64_t deadline_ns = net != NULL ? net_next_deadline_ns(net->stack) : UINT64_MAX;
    if (deadline_ns == UINT64_MAX)
        return UINT64_MAX;
    return deadline_ns <= CLOCK_AHEAD_NS ? 0
                                         : (deadline_ns - CLOCK_AHEAD_NS + 999) / 1000; /* rounded up: never early */
}

void pnet_run_timers(struct pnet *net)
{
    if (net != NULL)
        net_idle(net->stack, net->now_ns);
}

int pnet_counter(struct pnet *net, size_t index, const char **name, uint64_t *value)
{
    static char names[sizeof(struct net_counters) / sizeof(uint64_t)][COUNTER_PATH_BYTES];
    if (net == NULL)
        return -EINVAL;
    if (name == NULL || value == NULL)
        return -EFAULT;
    if (index >= ARRAY_COUNT(names))
        return -ENOENT;
    size_t row = index, module = 0;
    struct counter_group group = net_counter_group(&net->stack->ip.counters, module);
    for (; row >= group.count; group = net_counter_group(&net->stack->ip.counters, ++module))
        row -= group.count;
    snprintf(names[index], COUNTER_PATH_BYTES, "%s%s", group.prefix, group.counters[row].name);
    *name = names[index];
    *value = group.values[row];
    return 0;
}
