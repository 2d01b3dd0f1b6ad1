/* Puts the model of gVNIC into a machine: a vfio-user server on a UNIX socket, for QEMU's `vfio-user-pci`.
 *
 *     gve-device SOCKET tap=NAME | dgram=LOCAL,REMOTE [SETTING=VALUE ...]
 *
 * Frames go to a TAP device, or to a pair of paths as QEMU's `-netdev dgram` has them. Standard input takes lines:
 * "link down", "link up", "reset". Standard output has each admin queue command with its answer. The server ends with
 * its one client, says what it counted, and exits with 1 if the driver did what no device would accept.
 *
 * The protocol is vfio-user 0.0 as QEMU 10.1 speaks it: little-endian messages with a header of 16 bytes, one reply to
 * each request. The guest's memory arrives as file descriptors, so it must be shared memory. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/bytes.h"
#include "drivers/pci/spec.h"
#include "tests/gve/model.h"

/* ---- the protocol's numbers ---- */

enum {
    VERSION = 1,
    DMA_MAP = 2,
    DMA_UNMAP = 3,
    GET_INFO = 4,
    GET_REGION_INFO = 5,
    GET_IRQ_INFO = 7,
    SET_IRQS = 8,
    REGION_READ = 9,
    REGION_WRITE = 10,
    RESET = 13,
};
enum { FLAG_REPLY = 0x1, FLAG_NO_REPLY = 0x10, FLAG_ERROR = 0x20 };
enum { REGION_CONFIG = 7, REGION_COUNT = 9, IRQ_MSIX = 2, IRQ_COUNT = 5 };
enum { DEVICE_FLAGS_RESET_PCI = 0x3, REGION_FLAGS_READ_WRITE = 0x3, IRQ_FLAGS_EVENTFD_NORESIZE = 0x9 };
enum { SET_IRQS_EVENTFD = 0x4, SET_IRQS_TRIGGER = 0x20, UNMAP_ALL = 0x2 };
enum { VECTORS = 2 * GVE_MODEL_QUEUES_MAX + 1, FDS_MAX = 16, CONFIG_BYTES = 256, MSIX_OFFSET = 0x40 };

struct header {
    uint16_t id, command;
    uint32_t bytes; /* the whole message's */
    uint32_t flags, error;
};
struct region_access {
    uint64_t offset;
    uint32_t region, count;
};
struct message {
    struct header header;
    union {
        uint8_t bytes[4096];
        uint32_t word[8];
        struct {
            uint32_t argsz, flags;
            uint64_t offset, address, size;
        } map;
        struct {
            uint32_t argsz, flags;
            uint64_t address, size;
        } unmap;
        struct {
            uint32_t argsz, flags, index, cap_offset;
            uint64_t size, offset;
        } region;
        struct {
            uint32_t argsz, flags, index, start, count;
        } irqs;
        struct {
            struct region_access access;
            uint8_t data[CONFIG_BYTES];
        } io;
    };
};

/* ---- the server's state ---- */

static struct gve_model model;
static struct {
    uint64_t address, bytes;
    uint8_t *at;
} maps[256];
static int vector_fd[VECTORS];
static int vector_count;
static uint8_t config_space[CONFIG_BYTES];
static int client = -1, frames = -1;
static struct {
    int what; /* enum gve_model_written, or -1 */
    uint32_t offset, bytes;
    uint64_t value, skip;
} fault = { .what = -1 };

static void die(const char *what, const char *word)
{
    fprintf(stderr, "gve-device: %s: '%s' (%s)\n", what, word, strerror(errno));
    exit(2);
}

/* ---- the model's functions ---- */

static void *translate(void *context, uint64_t address, uint64_t bytes)
{
    (void)context;
    for (size_t i = 0; i < ARRAY_COUNT(maps); i++)
        if (maps[i].at && address >= maps[i].address && bytes <= maps[i].bytes
            && address - maps[i].address <= maps[i].bytes - bytes)
            return maps[i].at + (address - maps[i].address);
    return NULL;
}

static void send_frame(void *context, const uint8_t *frame, uint32_t bytes)
{
    (void)context;
    struct pollfd ready = { .fd = frames, .events = POLLOUT };
    /* A peer that takes nothing for a second loses the frame. */
    for (int tries = 0; tries < 10; tries++) {
        if (write(frames, frame, bytes) >= 0 || errno != EAGAIN)
            return;
        poll(&ready, 1, 100);
    }
}

static void raise_vector(void *context, uint32_t vector)
{
    (void)context;
    uint64_t one = 1;
    if (vector < VECTORS && vector_fd[vector] >= 0 && write(vector_fd[vector], &one, sizeof one) < 0)
        die("cannot raise a vector", "eventfd");
}

static const char *const command_names[GVE_ADMINQ_OPCODE_END] = {
    [GVE_ADMINQ_DESCRIBE_DEVICE] = "describe_device",
    [GVE_ADMINQ_CONFIGURE_DEVICE_RESOURCES] = "configure_device_resources",
    [GVE_ADMINQ_REGISTER_PAGE_LIST] = "register_page_list",
    [GVE_ADMINQ_UNREGISTER_PAGE_LIST] = "unregister_page_list",
    [GVE_ADMINQ_CREATE_TX_QUEUE] = "create_tx_queue",
    [GVE_ADMINQ_CREATE_RX_QUEUE] = "create_rx_queue",
    [GVE_ADMINQ_DESTROY_TX_QUEUE] = "destroy_tx_queue",
    [GVE_ADMINQ_DESTROY_RX_QUEUE] = "destroy_rx_queue",
    [GVE_ADMINQ_DECONFIGURE_DEVICE_RESOURCES] = "deconfigure_device_resources",
    [GVE_ADMINQ_CONFIGURE_RSS] = "configure_rss",
    [GVE_ADMINQ_SET_DRIVER_PARAMETER] = "set_driver_parameter",
    [GVE_ADMINQ_REPORT_STATS] = "report_stats",
    [GVE_ADMINQ_REPORT_LINK_SPEED] = "report_link_speed",
    [GVE_ADMINQ_GET_PTYPE_MAP] = "get_ptype_map",
    [GVE_ADMINQ_VERIFY_DRIVER_COMPATIBILITY] = "verify_driver_compatibility",
};

static void log_command(void *context, const struct gve_command *command, uint32_t status)
{
    (void)context;
    uint32_t opcode = load_be32(&command->opcode);
    const char *name = opcode < GVE_ADMINQ_OPCODE_END && command_names[opcode] ? command_names[opcode] : "unknown";
    printf("command %s ", name);
    printf(status == GVE_ADMINQ_STATUS_PASSED ? "passed\n" : "%08x\n", status);
    fflush(stdout);
}

static const char *const written_names[GVE_MODEL_WRITTEN_END] = {
    [GVE_MODEL_DESCRIPTION] = "description",
    [GVE_MODEL_STATUS] = "status",
    [GVE_MODEL_RESOURCES] = "resources",
    [GVE_MODEL_IRQ_INDEX] = "irq_index",
    [GVE_MODEL_LINK_SPEED] = "link_speed",
    [GVE_MODEL_COUNTER] = "counter",
    [GVE_MODEL_RX] = "rx",
    [GVE_MODEL_TX_COMPLETION] = "tx_completion",
    [GVE_MODEL_PTYPES] = "ptypes",
    [GVE_MODEL_REGISTERS] = "registers",
};

/* Injects the fault: overwrites a field of each structure of its kind, except the first ones. */
static void alter(void *context, enum gve_model_written what, void *structure, size_t bytes)
{
    (void)context;
    if ((int)what != fault.what || fault.offset + fault.bytes > bytes)
        return;
    if (fault.skip > 0) {
        fault.skip--;
        return;
    }
    uint8_t value[8];
    store_be64(value, fault.value);
    memcpy((uint8_t *)structure + fault.offset, value + 8 - fault.bytes, fault.bytes);
}

/* ---- PCI configuration space ---- */

static const uint8_t bar_registers[] = { GVE_BAR_REGISTERS, GVE_BAR_MSIX, GVE_BAR_DOORBELLS };

static void config_init(uint8_t revision)
{
    store_le32(config_space + PCI_VENDOR_DEVICE, (uint32_t)GVE_PCI_DEVICE << 16 | GVE_PCI_VENDOR);
    store_le32(config_space + PCI_COMMAND_STATUS, (uint32_t)PCI_STATUS_CAPABILITIES << 16);
    store_le32(config_space + PCI_CLASS_REVISION, (uint32_t)PCI_CLASS_ETHERNET << 16 | revision);
    store_le32(config_space + PCI_SUBSYSTEM, (uint32_t)GVE_PCI_DEVICE << 16 | GVE_PCI_VENDOR);
    config_space[PCI_CAPABILITY_POINTER] = MSIX_OFFSET;
    config_space[MSIX_OFFSET] = PCI_CAPABILITY_MSIX;
    store_le16(config_space + MSIX_OFFSET + 2, (uint16_t)(vector_count - 1));
    store_le32(config_space + MSIX_OFFSET + PCI_MSIX_TABLE, GVE_BAR_MSIX);
    store_le32(config_space + MSIX_OFFSET + 8, 0x800 | GVE_BAR_MSIX); /* pending bits, after the table */
}

/* Writes what can be written: command, BARs, and the control of MSI-X. QEMU keeps its own copy of the rest. */
static void config_write(uint32_t offset, const uint8_t *data, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t at = offset + i;
        bool bar = at >= PCI_BAR0 && at < PCI_BAR0 + 4 * ARRAY_COUNT(bar_registers);
        if (bar)
            config_space[at] = (uint8_t)(data[i] & (at % 4 == 0 ? 0 : at % 4 == 1 ? 0xf0 : 0xff));
        else if (at / 2 == PCI_COMMAND_STATUS / 2 || at == MSIX_OFFSET + 3)
            config_space[at] = data[i];
    }
}

/* ---- requests ---- */

/* Maps memory of the guest. Memory without a descriptor (ROM) stays out of the device's reach. */
static int dma_map(const struct message *m, const int *fds, size_t fd_count)
{
    if (fd_count == 0)
        return 0;
    size_t i = 0;
    while (i < ARRAY_COUNT(maps) && maps[i].at)
        i++;
    if (i == ARRAY_COUNT(maps))
        return ENOSPC;
    void *at = mmap(NULL, m->map.size, PROT_READ | PROT_WRITE, MAP_SHARED, fds[0], (off_t)m->map.offset);
    if (at == MAP_FAILED)
        return errno;
    maps[i].at = at;
    maps[i].address = m->map.address;
    maps[i].bytes = m->map.size;
    return 0;
}

static void dma_unmap(const struct message *m)
{
    for (size_t i = 0; i < ARRAY_COUNT(maps); i++) {
        bool within = maps[i].address >= m->unmap.address && maps[i].address - m->unmap.address < m->unmap.size;
        if (maps[i].at && ((m->unmap.flags & UNMAP_ALL) || within)) {
            munmap(maps[i].at, maps[i].bytes);
            maps[i].at = NULL;
        }
    }
}

/* Takes the event descriptors over; all that it does not keep are closed by the caller. */
static int set_irqs(const struct message *m, int *fds, size_t fd_count)
{
    uint32_t start = m->irqs.start;
    uint32_t count = m->irqs.count;
    if (m->irqs.index != IRQ_MSIX || !(m->irqs.flags & SET_IRQS_TRIGGER))
        return 0;
    if (count == 0)
        count = VECTORS - start;
    if (start > VECTORS || count > VECTORS - start)
        return EINVAL;
    for (uint32_t i = 0; i < count; i++) {
        int *fd = &vector_fd[start + i];
        if (*fd >= 0)
            close(*fd);
        *fd = -1;
        if ((m->irqs.flags & SET_IRQS_EVENTFD) && i < fd_count) {
            *fd = fds[i];
            fds[i] = -1;
        }
    }
    return 0;
}

static int region_io(struct message *m, bool write)
{
    struct region_access access = m->io.access;
    bool config = access.region == REGION_CONFIG;
    if (access.count > sizeof m->io.data
        || access.offset + access.count > (config ? CONFIG_BYTES : GVE_MODEL_BAR_BYTES))
        return EINVAL;
    uint32_t offset = (uint32_t)access.offset;
    if (config && write)
        config_write(offset, m->io.data, access.count);
    else if (config)
        memcpy(m->io.data, config_space + offset, access.count);
    else if (write && access.region != GVE_BAR_MSIX) /* QEMU keeps the table itself. */
        gve_model_write(&model, access.region, offset, m->io.data, access.count);
    else if (!write)
        gve_model_read(&model, access.region, offset, m->io.data, access.count);
    return 0;
}

/* Carries a request out and makes it its reply. Returns the bytes of the reply's body, or a negative errno. */
static int handle(struct message *m, int *fds, size_t fd_count)
{
    static const char version[] = "\0\0\0\0{\"capabilities\":{\"max_msg_fds\":8}}";
    int error = 0;
    switch (m->header.command) {
    case VERSION:
        memcpy(m->bytes, version, sizeof version);
        return sizeof version;
    case DMA_MAP:
        return -dma_map(m, fds, fd_count);
    case DMA_UNMAP:
        dma_unmap(m);
        return sizeof m->unmap;
    case GET_INFO:
        memcpy(m->word, (uint32_t[]){ 16, DEVICE_FLAGS_RESET_PCI, REGION_COUNT, IRQ_COUNT }, 16);
        return 16;
    case GET_REGION_INFO:
        m->region.size = m->region.index <= GVE_BAR_DOORBELLS ? GVE_MODEL_BAR_BYTES
                         : m->region.index == REGION_CONFIG   ? CONFIG_BYTES
                                                              : 0;
        m->region.flags = m->region.size ? REGION_FLAGS_READ_WRITE : 0;
        m->region.argsz = sizeof m->region;
        m->region.cap_offset = 0;
        m->region.offset = 0;
        return sizeof m->region;
    case GET_IRQ_INFO:
        m->word[1] = m->word[2] == IRQ_MSIX ? IRQ_FLAGS_EVENTFD_NORESIZE : 0;
        m->word[3] = m->word[2] == IRQ_MSIX ? (uint32_t)vector_count : 0;
        return 16;
    case SET_IRQS:
        return -set_irqs(m, fds, fd_count);
    case REGION_READ:
        error = region_io(m, false);
        return error ? -error : (int)(sizeof m->io.access + m->io.access.count);
    case REGION_WRITE:
        error = region_io(m, true);
        return error ? -error : (int)sizeof m->io.access;
    case RESET:
        gve_model_reset(&model);
        return 0;
    default:
        return -ENOSYS;
    }
}

/* Serves one message. Returns false when the client has gone. */
static bool serve(void)
{
    static struct message m;
    union {
        struct cmsghdr header;
        uint8_t space[CMSG_SPACE(FDS_MAX * sizeof(int))];
    } control;
    struct iovec part = { &m.header, sizeof m.header };
    struct msghdr received = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control
    };
    int fds[FDS_MAX];
    size_t fd_count = 0;
    if (recvmsg(client, &received, MSG_WAITALL) != (ssize_t)sizeof m.header)
        return false;
    struct cmsghdr *passed = CMSG_FIRSTHDR(&received);
    if (passed && passed->cmsg_type == SCM_RIGHTS) {
        fd_count = (passed->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        memcpy(fds, CMSG_DATA(passed), fd_count * sizeof(int));
    }
    size_t body = m.header.bytes - sizeof m.header;
    if (m.header.bytes < sizeof m.header || body > sizeof m.bytes
        || (body > 0 && recv(client, m.bytes, body, MSG_WAITALL) != (ssize_t)body))
        return false;
    int done = handle(&m, fds, fd_count);
    for (size_t i = 0; i < fd_count; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    if (m.header.flags & FLAG_NO_REPLY)
        return true;
    m.header.flags = done < 0 ? FLAG_REPLY | FLAG_ERROR : FLAG_REPLY;
    m.header.error = done < 0 ? (uint32_t)-done : 0;
    m.header.bytes = (uint32_t)(sizeof m.header + (done < 0 ? 0 : (size_t)done));
    return send(client, &m, m.header.bytes, MSG_NOSIGNAL) == (ssize_t)m.header.bytes;
}

/* ---- the other sides ---- */

static struct sockaddr_un unix_address(const char *path)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    if (strlen(path) >= sizeof address.sun_path)
        die("a socket's path is too long", path);
    strcpy(address.sun_path, path);
    return address;
}

static struct sockaddr_un peer; /* REMOTE of dgram=; without a path: none */

static void open_tap(const char *name)
{
    struct ifreq request = { .ifr_flags = IFF_TAP | IFF_NO_PI };
    strncpy(request.ifr_name, name, IFNAMSIZ - 1);
    frames = open("/dev/net/tun", O_RDWR | O_NONBLOCK);
    if (frames < 0 || ioctl(frames, TUNSETIFF, &request) < 0)
        die("cannot open the TAP device", name);
}

static void open_dgram(char *paths)
{
    char *remote = strchr(paths, ',');
    if (!remote)
        die("dgram=LOCAL,REMOTE has one path", paths);
    *remote++ = '\0';
    struct sockaddr_un near = unix_address(paths);
    peer = unix_address(remote);
    unlink(paths);
    frames = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    if (bind(frames, (struct sockaddr *)&near, sizeof near) < 0)
        die("cannot bind", paths);
}

/* Connects the pair of paths. The other end may be the same QEMU, whose network comes up before the NIC. */
static void connect_peer(void)
{
    if (peer.sun_path[0] != '\0' && connect(frames, (struct sockaddr *)&peer, sizeof peer) < 0)
        die("cannot connect", peer.sun_path);
}

static void accept_client(const char *path)
{
    struct sockaddr_un address = unix_address(path);
    int listener = socket(AF_UNIX, SOCK_STREAM, 0);
    unlink(path);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) < 0 || listen(listener, 1) < 0)
        die("cannot listen", path);
    printf("listening\n");
    fflush(stdout);
    client = accept(listener, NULL, NULL);
    close(listener);
}

static void take_frame(void)
{
    static uint8_t frame[UINT16_MAX];
    ssize_t bytes = read(frames, frame, sizeof frame);
    if (bytes > 0)
        gve_model_receive(&model, frame, (uint32_t)bytes);
}

/* Carries out a line of standard input. Returns false at its end. */
static bool take_order(void)
{
    char line[64];
    if (!fgets(line, sizeof line, stdin))
        return false;
    if (!strcmp(line, "link down\n") || !strcmp(line, "link up\n"))
        gve_model_set_link(&model, line[5] == 'u');
    else if (!strcmp(line, "reset\n"))
        gve_model_ask_reset(&model);
    else
        die("no such order", line);
    return true;
}

static void set_fault(char *text)
{
    char *name = strsep(&text, ":");
    for (int i = 0; i < GVE_MODEL_WRITTEN_END; i++)
        if (!strcmp(name, written_names[i]))
            fault.what = i;
    if (fault.what < 0 || !text
        || sscanf(text, "%u:%u:%li:%lu", &fault.offset, &fault.bytes, (long *)&fault.value, &fault.skip) < 3
        || fault.bytes > 8)
        die("fault=STRUCTURE:OFFSET:BYTES:VALUE[:SKIP] is not understood", name);
}

static uint32_t read_format(const char *name)
{
    uint32_t number = !strcmp(name, "qpl")   ? GVE_FORMAT_GQI_QPL
                      : !strcmp(name, "rda") ? GVE_FORMAT_GQI_RDA
                      : !strcmp(name, "dqo") ? GVE_FORMAT_DQO_RDA
                                             : 0;
    if (number == 0)
        die("no such format: qpl, rda or dqo", name);
    return (uint32_t)BIT(number);
}

static struct gve_model_config read_settings(int count, char **settings)
{
    struct gve_model_config config = {
        .translate = translate,
        .send = send_frame,
        .interrupt = raise_vector,
        .command = log_command,
        .alter = alter,
        .mac = { 0x52, 0x54, 0x00, 0x67, 0x76, 0x65 },
    };
    for (int i = 0; i < count; i++) {
        char *value = strchr(settings[i], '=');
        if (!value)
            die("a setting has no value", settings[i]);
        *value++ = '\0';
        unsigned long number = strtoul(value, NULL, 0);
        if (!strcmp(settings[i], "tap"))
            open_tap(value);
        else if (!strcmp(settings[i], "dgram"))
            open_dgram(value);
        else if (!strcmp(settings[i], "fault"))
            set_fault(value);
        else if (!strcmp(settings[i], "format"))
            config.formats = read_format(value);
        else if (!strcmp(settings[i], "revision"))
            config.revision = (uint8_t)number;
        else if (!strcmp(settings[i], "mtu"))
            config.mtu = (uint16_t)number;
        else if (!strcmp(settings[i], "max_mtu"))
            config.max_mtu = (uint16_t)number;
        else if (!strcmp(settings[i], "entries"))
            config.entries = (uint16_t)number;
        else if (!strcmp(settings[i], "tx_pages"))
            config.tx_pages = (uint16_t)number;
        else if (!strcmp(settings[i], "queues") && number <= GVE_MODEL_QUEUES_MAX)
            config.queue_count = (uint16_t)number;
        else
            die("no such setting", settings[i]);
    }
    return config;
}

int main(int count, char **words)
{
    if (count < 3)
        die("usage: gve-device SOCKET tap=NAME|dgram=LOCAL,REMOTE [SETTING=VALUE ...]", words[count - 1]);
    gve_model_init(&model, read_settings(count - 2, words + 2));
    vector_count = 2 * model.config.queue_count + 1;
    memset(vector_fd, -1, sizeof vector_fd);
    config_init(model.config.revision);
    accept_client(words[1]);
    connect_peer();
    bool orders = true;
    while (true) {
        struct pollfd ready[] = { { .fd = client, .events = POLLIN },
                                  { .fd = gve_model_can_receive(&model) ? frames : -1, .events = POLLIN },
                                  { .fd = orders ? STDIN_FILENO : -1, .events = POLLIN } };
        if (poll(ready, ARRAY_COUNT(ready), -1) < 0 || (ready[0].revents && !serve()))
            break;
        if (ready[1].revents)
            take_frame();
        if (ready[2].revents)
            orders = take_order();
    }
    printf("sent %lu, received %lu, doorbells %lu, reads %lu, resets %lu, lost %lu, faults %lu\n", model.sent_count,
           model.received_count, model.doorbell_count, model.register_read_count, model.reset_count,
           model.no_buffer_count, model.fault_count);
    if (model.violation)
        printf("violation: %s\n", model.violation);
    return model.violation ? EXIT_FAILURE : EXIT_SUCCESS;
}
