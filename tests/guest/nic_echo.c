/* A kernel for testing the network drivers without a stack. It returns each frame as it came.
 *
 * By EtherType (IEEE 802, local experimental and the next ones): ECHO is returned with the addresses swapped. HOLD is
 * returned too, but its receive buffer stays borrowed until NETDEV_RX_BORROWED_MAX are. COUNTERS is answered with the
 * driver's counters, 8 bytes each. GROUPS is returned, and its bytes become the device's table of groups: a count and
 * the addresses. RESET ends the machine. Link changes go to the log. With the word "sleep" on the
 * command line the machine sleeps between frames, for seconds. A frame that fails to wake it comes back too late. */
#include <string.h>

#include "base/log.h"
#include "drivers/console/uart.h"
#include "drivers/nic/nic.h"
#include "kernel/cpu/apic.h"
#include "kernel/cpu/cpu.h"
#include "kernel/firmware/acpi.h"
#include "kernel/firmware/boot_info.h"
#include "kernel/memory/memory.h"
#include "kernel/rescue/failure.h"
#include "kernel/rescue/reset.h"
#include "kernel/rescue/shutdown.h"
#include "kernel/time/clock.h"
#include "kernel/time/sleep.h"

enum { ECHO = 0x88b5, HOLD = 0x88b6, COUNTERS = 0x88b7, RESET = 0x88b8, GROUPS = 0x88b9 };
enum { ETHERNET_BYTES = 14, POLL_TURNS = 64 };

static struct boot_info boot;
static struct netdev *device;
static struct frame held[NETDEV_RX_BORROWED_MAX];
static size_t held_count;

_Noreturn void kernel_main(enum boot_protocol protocol, const void *information);

static void machine_init(enum boot_protocol protocol, const void *information)
{
    failure_init();
    uart_init();
    log_add_sink(uart_write);
    if (!boot_info_parse(&boot, protocol, information, BOOT_MAPPED_END))
        shutdown("the loader's information is broken");
    cpu_init(false);
    traps_init(failure_of_trap);
    memory_init(boot.regions, boot.region_count, boot.regions_dropped_count == 0);
    apic_init(memory_map_device);
    acpi_init(&boot, 0);
    reset_arm();
    clock_init();
}

static uint32_t counters_write(uint8_t *at)
{
    const struct counter_group *const group = nic_counter_group(0);
    for (size_t i = 0; i < group->count; i++)
        store_be64(at + 8 * i, group->values[i]);
    return (uint32_t)(8 * group->count);
}

/* Answers a frame. Drops the frame and returns false if there is no buffer, or no room in the ring. */
static bool answer(const struct frame *frame)
{
    struct tx_buffer *buffer = device->ops->tx_acquire(device);
    if (buffer == NULL)
        return false;
    memcpy(buffer->data, frame->data, frame->bytes);
    memcpy(buffer->data, frame->data + 6, 6);
    memcpy(buffer->data + 6, device->mac, 6);
    uint32_t bytes = frame->bytes;
    if (load_be16(frame->data + 12) == COUNTERS)
        bytes = ETHERNET_BYTES + counters_write(buffer->data + ETHERNET_BYTES);
    bool sent = device->ops->tx_publish(device, buffer, bytes, 0, 0);
    device->ops->tx_release(device, buffer);
    return sent;
}

static void take(const struct frame *frame)
{
    switch (load_be16(frame->data + 12)) {
    case HOLD:
        answer(frame);
        held[held_count++] = *frame;
        for (bool full = held_count == NETDEV_RX_BORROWED_MAX; full && held_count > 0;)
            device->ops->rx_release(device, &held[--held_count]);
        return;
    case RESET:
        shutdown("ordered");
    case GROUPS:
        device->ops->groups_set(device, (const uint8_t(*)[NETDEV_MAC_BYTES])(frame->data + ETHERNET_BYTES + 1),
                                frame->data[ETHERNET_BYTES]);
        answer(frame);
        break;
    case ECHO:
    case COUNTERS:
        answer(frame);
        break;
    }
    device->ops->rx_release(device, frame);
}

/* Sleeps as image/main.c does. Every eighth sleep is left to the timer to end. */
static void rest(void)
{
    static uint32_t turn;
    device->ops->poll(device);
    uint64_t now_ns = clock_now_ns();
    uint64_t sleep_ns = ++turn % 8 == 0 ? UINT64_C(1000000) : UINT64_C(10000000000);
    if (nic_wake())
        sleep_until_ns(now_ns, now_ns + sleep_ns);
    nic_quiet();
}

_Noreturn void kernel_main(enum boot_protocol protocol, const void *information)
{
    machine_init(protocol, information);
    const struct settings_table *const tables[] = { &machine_settings_table };
    static struct settings settings;
    settings_begin(&settings, tables, 1);
    settings_add(&settings, "command line", boot.command_line, strlen(boot.command_line));
    bool sleeps = strcmp(boot.command_line, "sleep") == 0 && sleep_init();
    struct pci_message message = { sleep_message_address(), sleep_message_data() };
    const struct nic_wish wish = { &machine_settings.virtio_mmio, sleeps ? &message : NULL, NULL };
    const char *error = nic_find(&device, &wish);
    if (error != NULL)
        shutdown(error);
    memory_seal();
    sleeps = sleeps && nic_can_wake();
    log_line("echoing%s", sleeps ? " and sleeping" : "");
    bool link_up = device->link_up;
    for (uint32_t turn = 0; nic_broken() == NULL; turn++) {
        struct frame frame;
        if (device->ops->rx_borrow(device, &frame))
            take(&frame);
        else if (sleeps)
            rest();
        if (turn % POLL_TURNS == 0)
            device->ops->poll(device);
        if (device->link_up != link_up) {
            link_up = device->link_up;
            log_line("link %s", link_up ? "up" : "down");
        }
    }
    shutdown(nic_broken());
}
