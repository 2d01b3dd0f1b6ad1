/* A TAP interface as a network device: a frame is one read or one write. With offload each carries a virtio_net_hdr in
 * front (IFF_VNET_HDR), through which Linux gives and takes partial checksums: virtio 1.2 §5.1.6. */
#define _GNU_SOURCE
#include "tests/lib/netdev_tap.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <linux/virtio_net.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include "tests/lib/frame_pool.h"

static struct netdev device;
static struct frame_pool pool;
static int fd = -1;
static size_t header_bytes; /* length of the virtio_net_hdr; 0: none */

static bool tap_rx_borrow(struct netdev *self, struct frame *frame)
{
    struct virtio_net_hdr header = { 0 };
    (void)self;
    if (!frame_pool_rx_take(&pool, frame))
        return false;
    struct iovec parts[2] = { { &header, header_bytes },
                              { frame->data, NETDEV_FRAME_BYTES_MAX + NETDEV_TAGS_BYTES_MAX } };
    ssize_t got = readv(fd, parts, 2);
    if (got <= (ssize_t)header_bytes) {
        frame_pool_rx_put_back(&pool, frame);
        return false;
    }
    frame->checksum_good = (header.flags & (VIRTIO_NET_HDR_F_NEEDS_CSUM | VIRTIO_NET_HDR_F_DATA_VALID)) != 0;
    frame_pool_rx_lend(&pool, frame, (uint32_t)got - (uint32_t)header_bytes);
    return true;
}

static void tap_rx_release(struct netdev *self, const struct frame *frame)
{
    (void)self;
    frame_pool_rx_release(&pool, frame);
}

static struct tx_buffer *tap_tx_acquire(struct netdev *self)
{
    (void)self;
    return frame_pool_tx_acquire(&pool);
}

static bool tap_tx_publish(struct netdev *self, struct tx_buffer *buffer, uint32_t bytes, uint16_t csum_start,
                           uint16_t csum_offset)
{
    (void)self;
    frame_pool_tx_check(&pool, buffer, bytes);
    struct virtio_net_hdr header = {
        .flags = csum_start != 0 ? VIRTIO_NET_HDR_F_NEEDS_CSUM : 0,
        .csum_start = csum_start,
        .csum_offset = csum_offset,
    };
    struct iovec parts[2] = { { &header, header_bytes }, { buffer->data, bytes } };
    /* Other errors count as a loss on the wire. */
    return writev(fd, parts, 2) == (ssize_t)(header_bytes + bytes) || errno != EAGAIN;
}

static void tap_tx_release(struct netdev *self, struct tx_buffer *buffer)
{
    (void)self;
    frame_pool_tx_release(&pool, buffer);
}

static void tap_poll(struct netdev *self) { (void)self; }

static const struct netdev_ops tap_ops = {
    .rx_borrow = tap_rx_borrow,
    .rx_release = tap_rx_release,
    .tx_acquire = tap_tx_acquire,
    .tx_publish = tap_tx_publish,
    .tx_release = tap_tx_release,
    .poll = tap_poll,
};

static struct netdev *fail(const char *what, const char *name)
{
    fprintf(stderr, "tap %s: %s: %s\n", name, what, strerror(errno));
    if (fd >= 0)
        close(fd);
    fd = -1;
    return NULL;
}

struct netdev *netdev_tap_open(const struct netdev_tap_config *config)
{
    fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return fail("/dev/net/tun", config->name);
    struct ifreq request = { .ifr_flags = (short)(IFF_TAP | IFF_NO_PI | (config->offload ? IFF_VNET_HDR : 0)) };
    snprintf(request.ifr_name, sizeof request.ifr_name, "%s", config->name);
    if (ioctl(fd, TUNSETIFF, &request) != 0)
        return fail("TUNSETIFF", config->name);
    header_bytes = config->offload ? sizeof(struct virtio_net_hdr) : 0;
    if (config->offload && ioctl(fd, TUNSETOFFLOAD, TUN_F_CSUM) != 0)
        return fail("TUNSETOFFLOAD", config->name);

    frame_pool_init(&pool);
    device = (struct netdev){
        .ops = &tap_ops,
        .mtu_bytes = 1500,
        .tx_checksum = config->offload,
        .link_up = true,
    };
    memcpy(device.mac, config->mac, sizeof device.mac);
    return &device;
}

int netdev_tap_fd(void) { return fd; }
