#include "tools/workshop/probe/vhost_user.h"

#include <assert.h>
#include <err.h>
#include <errno.h>
#include <linux/virtio_config.h>
#include <linux/virtio_net.h>
#include <linux/virtio_ring.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* The protocol's messages, by their names in docs/interop/vhost-user.rst. */
enum request {
    GET_FEATURES = 1,
    SET_FEATURES = 2,
    SET_OWNER = 3,
    RESET_OWNER = 4,
    SET_MEM_TABLE = 5,
    SET_VRING_NUM = 8,
    SET_VRING_ADDR = 9,
    SET_VRING_BASE = 10,
    GET_VRING_BASE = 11,
    SET_VRING_KICK = 12,
    SET_VRING_CALL = 13,
    SET_VRING_ERR = 14,
    GET_PROTOCOL_FEATURES = 15,
    SET_PROTOCOL_FEATURES = 16,
    GET_QUEUE_NUM = 17,
    SET_VRING_ENABLE = 18,
};

enum {
    MESSAGE_VERSION = 1,
    MESSAGE_REPLY = 4,
    MESSAGE_HEAD_BYTES = 12,
    VRING_INDEX_MASK = 0xff, /* SET_VRING_KICK, _CALL, _ERR */
    VRING_NO_FD = 0x100,
    F_PROTOCOL_FEATURES = 30,
    RECEIVE = 0,
    TRANSMIT = 1,
};

static const uint64_t FEATURES = 1ull << VIRTIO_F_VERSION_1 | 1ull << VIRTIO_RING_F_EVENT_IDX
                                 | 1ull << VIRTIO_NET_F_MRG_RXBUF | 1ull << VIRTIO_NET_F_CSUM
                                 | 1ull << VIRTIO_NET_F_GUEST_CSUM | 1ull << F_PROTOCOL_FEATURES;

struct message {
    uint32_t request, flags, bytes;
    union {
        uint64_t number;
        struct {
            uint32_t index, value;
        } state;
        struct {
            uint32_t index, flags;
            uint64_t desc, used, avail, log;
        } address;
        struct {
            uint32_t count, padding;
            struct {
                uint64_t guest_from, bytes, user_from, offset_bytes;
            } regions[VHOST_USER_REGION_COUNT_MAX];
        } memory;
    };
} __attribute__((packed));

uint64_t vhost_user_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static bool has(const struct vhost_user *device, unsigned feature) { return (device->features >> feature & 1) != 0; }

void vhost_user_init(struct vhost_user *device, int socket)
{
    *device = (struct vhost_user){ .socket = socket };
    for (int i = 0; i < VHOST_USER_QUEUE_COUNT; i++)
        device->queues[i].call_fd = -1;
}

/* ---- Memory ---- */

static void memory_unmap(struct vhost_user *device)
{
    for (uint32_t i = 0; i < device->region_count; i++)
        munmap(device->regions[i].mapped, device->regions[i].offset_bytes + device->regions[i].bytes);
    device->region_count = 0;
}

static void memory_map(struct vhost_user *device, const struct message *message, const int *fds)
{
    memory_unmap(device);
    if (message->memory.count > VHOST_USER_REGION_COUNT_MAX)
        errx(1, "vhost-user: %u regions of memory", message->memory.count);
    for (uint32_t i = 0; i < message->memory.count; i++) {
        struct vhost_user_region *region = &device->regions[i];
        *region = (struct vhost_user_region){ .guest_from = message->memory.regions[i].guest_from,
                                              .user_from = message->memory.regions[i].user_from,
                                              .bytes = message->memory.regions[i].bytes,
                                              .offset_bytes = message->memory.regions[i].offset_bytes };
        region->mapped = mmap(NULL, region->offset_bytes + region->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fds[i],
                              0);
        if (region->mapped == MAP_FAILED)
            err(1, "vhost-user: the guest's memory");
    }
    device->region_count = message->memory.count;
}

/* Translates an address of the guest's memory, or QEMU's own address of a place there. */
static void *memory_at(const struct vhost_user *device, uint64_t address, uint64_t bytes, bool of_guest)
{
    for (uint32_t i = 0; i < device->region_count; i++) {
        const struct vhost_user_region *region = &device->regions[i];
        uint64_t offset = address - (of_guest ? region->guest_from : region->user_from);
        if (offset < region->bytes && bytes <= region->bytes - offset)
            return (uint8_t *)region->mapped + region->offset_bytes + offset;
    }
    errx(1, "vhost-user: %s names 0x%llx, which is not its memory", of_guest ? "the guest" : "QEMU",
         (unsigned long long)address);
}

/* ---- The protocol ---- */

/* Starts or stops a queue, after any message that may have changed what the queue needs. */
static void queue_update(struct vhost_user *device, struct vhost_user_queue *queue)
{
    bool ready = queue->addressed && queue->kicked && queue->size != 0 && device->region_count != 0;
    queue->running = ready && (queue->enabled || !has(device, F_PROTOCOL_FEATURES));
    if (!queue->running)
        return;
    queue->desc = memory_at(device, queue->desc_user, queue->size * sizeof *queue->desc, false);
    queue->avail = memory_at(device, queue->avail_user, 6 + 2 * queue->size, false);
    queue->used = memory_at(device, queue->used_user, 6 + 8 * queue->size, false);
    queue->given = __atomic_load_n(&queue->used->idx, __ATOMIC_ACQUIRE);
    queue->used->flags = has(device, VIRTIO_RING_F_EVENT_IDX) ? 0 : VRING_USED_F_NO_NOTIFY;
}

static struct vhost_user_queue *queue_of(struct vhost_user *device, uint64_t index)
{
    if (index >= VHOST_USER_QUEUE_COUNT)
        errx(1, "vhost-user: there is no queue %llu", (unsigned long long)index);
    return &device->queues[index];
}

static void fd_close(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static void reply(const struct vhost_user *device, struct message *message, uint32_t bytes)
{
    assert(bytes <= sizeof *message - MESSAGE_HEAD_BYTES);
    message->flags = MESSAGE_VERSION | MESSAGE_REPLY;
    message->bytes = bytes;
    if (send(device->socket, message, MESSAGE_HEAD_BYTES + bytes, MSG_NOSIGNAL) < 0 && errno != EPIPE)
        err(1, "vhost-user: reply");
}

static void obey_vring(struct vhost_user *device, struct message *message, int *fd)
{
    bool by_number = message->request >= SET_VRING_KICK && message->request <= SET_VRING_ERR;
    struct vhost_user_queue *queue = queue_of(device,
                                              by_number ? message->number & VRING_INDEX_MASK : message->state.index);
    switch (message->request) {
    case SET_VRING_NUM:
        queue->size = message->state.value;
        break;
    case SET_VRING_ADDR:
        queue->desc_user = message->address.desc;
        queue->avail_user = message->address.avail;
        queue->used_user = message->address.used;
        queue->addressed = true;
        break;
    case SET_VRING_BASE:
        queue->taken = (uint16_t)message->state.value;
        break;
    case SET_VRING_ENABLE:
        queue->enabled = message->state.value != 0;
        break;
    case GET_VRING_BASE: /* stops the queue */
        queue->addressed = queue->kicked = queue->running = false;
        fd_close(&queue->call_fd);
        message->state.value = queue->taken;
        reply(device, message, sizeof message->state);
        return;
    case SET_VRING_KICK: /* starts the queue; the device polls, so nobody waits for this descriptor */
        queue->kicked = true;
        break;
    case SET_VRING_CALL:
        fd_close(&queue->call_fd);
        queue->call_fd = *fd;
        *fd = -1;
        break;
    }
    queue_update(device, queue);
}

static void obey(struct vhost_user *device, struct message *message, int *fds)
{
    switch (message->request) {
    case GET_FEATURES:
        message->number = FEATURES;
        reply(device, message, sizeof message->number);
        return;
    case SET_FEATURES:
        device->features = message->number;
        return;
    case GET_PROTOCOL_FEATURES:
    case GET_QUEUE_NUM:
        message->number = message->request == GET_QUEUE_NUM;
        reply(device, message, sizeof message->number);
        return;
    case SET_PROTOCOL_FEATURES:
    case SET_OWNER:
    case RESET_OWNER:
        return;
    case SET_MEM_TABLE:
        memory_map(device, message, fds);
        for (int i = 0; i < VHOST_USER_QUEUE_COUNT; i++)
            queue_update(device, &device->queues[i]);
        return;
    case SET_VRING_NUM ... GET_VRING_BASE:
    case SET_VRING_KICK ... SET_VRING_ERR:
    case SET_VRING_ENABLE:
        obey_vring(device, message, fds);
        return;
    }
    errx(1, "vhost-user: request %u is unknown", message->request);
}

bool vhost_user_serve(struct vhost_user *device)
{
    for (;;) {
        struct message message = { 0 };
        int fds[VHOST_USER_REGION_COUNT_MAX];
        union {
            struct cmsghdr head;
            char bytes[CMSG_SPACE(sizeof fds)];
        } control;
        struct iovec part = { &message, MESSAGE_HEAD_BYTES };
        struct msghdr header = {
            .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control
        };
        memset(fds, -1, sizeof fds);
        ssize_t got = recvmsg(device->socket, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
        if (got < 0 && errno == EAGAIN)
            return true;
        if (got != MESSAGE_HEAD_BYTES) {
            memory_unmap(device);
            return false;
        }
        struct cmsghdr *sent = CMSG_FIRSTHDR(&header);
        if (sent != NULL && sent->cmsg_type == SCM_RIGHTS)
            memcpy(fds, CMSG_DATA(sent), sent->cmsg_len - CMSG_LEN(0));
        bool whole = message.bytes <= sizeof message - MESSAGE_HEAD_BYTES;
        if (whole && message.bytes != 0) /* a recv of no bytes would wait for the next message */
            whole = recv(device->socket, &message.number, message.bytes, MSG_WAITALL) == (ssize_t)message.bytes;
        if (!whole)
            errx(1, "vhost-user: request %u of %u bytes", message.request, message.bytes);
        obey(device, &message, fds);
        for (int i = 0; i < VHOST_USER_REGION_COUNT_MAX; i++)
            fd_close(&fds[i]);
    }
}

bool vhost_user_is_running(const struct vhost_user *device)
{
    return device->queues[RECEIVE].running && device->queues[TRANSMIT].running;
}

/* ---- The rings ---- */

static uint32_t head_bytes(const struct vhost_user *device)
{
    return has(device, VIRTIO_F_VERSION_1) || has(device, VIRTIO_NET_F_MRG_RXBUF)
               ? sizeof(struct virtio_net_hdr_mrg_rxbuf)
               : sizeof(struct virtio_net_hdr);
}

/* Returns the head of the next chain that the driver has made available; -1: there is none. */
static int chain_take(struct vhost_user *device, struct vhost_user_queue *queue)
{
    if (!queue->running || __atomic_load_n(&queue->avail->idx, __ATOMIC_ACQUIRE) == queue->taken)
        return -1;
    uint16_t head = queue->avail->ring[queue->taken++ % queue->size];
    if (has(device, VIRTIO_RING_F_EVENT_IDX)) /* before the driver's index: no notification, §2.7.10 */
        *(uint16_t *)&queue->used->ring[queue->size] = (uint16_t)(queue->taken - 1);
    return head;
}

/* Copies between a chain and two buffers that follow each other. Returns the bytes copied. */
static uint32_t chain_copy(const struct vhost_user *device, const struct vhost_user_queue *queue, uint32_t at,
                           uint8_t *head, uint32_t head_count, uint8_t *frame, uint32_t frame_count)
{
    uint32_t done = 0, all = head_count + frame_count;
    assert(queue->running && queue->size != 0);
    for (uint32_t i = 0; i < queue->size; i++) {
        const struct vring_desc *desc = &queue->desc[at % queue->size];
        uint8_t *memory = memory_at(device, desc->addr, desc->len, true);
        for (uint32_t used = 0, count; used < desc->len && done < all; used += count, done += count) {
            bool in_head = done < head_count;
            uint32_t left = (in_head ? head_count : all) - done;
            uint8_t *ours = in_head ? head + done : frame + (done - head_count);
            count = desc->len - used < left ? desc->len - used : left;
            memcpy(desc->flags & VRING_DESC_F_WRITE ? memory + used : ours,
                   desc->flags & VRING_DESC_F_WRITE ? ours : memory + used, count);
        }
        if (!(desc->flags & VRING_DESC_F_NEXT))
            break;
        at = desc->next;
    }
    return done;
}

/* Gives a chain back. Returns the time right before the driver can see this. §2.7.7: interrupts if the driver asks. */
static uint64_t chain_give(struct vhost_user *device, struct vhost_user_queue *queue, uint32_t head, uint32_t bytes)
{
    uint16_t old = queue->given++;
    assert((uint16_t)(queue->taken - queue->given) < queue->size);
    queue->used->ring[old % queue->size] = (struct vring_used_elem){ head, bytes };
    uint64_t now_ns = vhost_user_now_ns();
    __atomic_store_n(&queue->used->idx, queue->given, __ATOMIC_RELEASE);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    bool wanted = has(device, VIRTIO_RING_F_EVENT_IDX)
                      ? vring_need_event(queue->avail->ring[queue->size], queue->given, old)
                      : !(queue->avail->flags & VRING_AVAIL_F_NO_INTERRUPT);
    uint64_t one = 1;
    if (wanted && queue->call_fd >= 0 && write(queue->call_fd, &one, sizeof one) < 0 && errno != EAGAIN)
        err(1, "vhost-user: interrupt");
    return now_ns;
}

uint64_t vhost_user_send(struct vhost_user *device, const void *frame, uint32_t bytes)
{
    assert(bytes <= sizeof device->frame);
    struct vhost_user_queue *queue = &device->queues[RECEIVE];
    int head = chain_take(device, queue);
    if (head < 0)
        return 0;
    struct virtio_net_hdr_mrg_rxbuf header = { .num_buffers = 1 };
    memcpy(device->frame, frame, bytes);
    uint32_t all = head_bytes(device) + bytes;
    if (chain_copy(device, queue, (uint32_t)head, (uint8_t *)&header, head_bytes(device), device->frame, bytes) != all)
        errx(1, "vhost-user: the guest's receive buffers hold less than %u bytes", all);
    return chain_give(device, queue, (uint32_t)head, all);
}

const uint8_t *vhost_user_receive(struct vhost_user *device, uint32_t *bytes, uint64_t *found_ns)
{
    struct vhost_user_queue *queue = &device->queues[TRANSMIT];
    int head = chain_take(device, queue);
    if (head < 0)
        return NULL;
    *found_ns = vhost_user_now_ns();
    struct virtio_net_hdr_mrg_rxbuf header;
    uint32_t copied = chain_copy(device, queue, (uint32_t)head, (uint8_t *)&header, head_bytes(device), device->frame,
                                 sizeof device->frame);
    if (copied < head_bytes(device))
        errx(1, "vhost-user: the guest sent %u bytes", copied);
    *bytes = copied - head_bytes(device);
    chain_give(device, queue, (uint32_t)head, 0);
    return device->frame;
}
