/* Drives the i6300esb by PCI. Does not know whose life it watches. */
#include "drivers/watchdog/i6300esb.h"

#include "base/assert.h"
#include "base/bytes.h"
#include "base/log.h"
#include "base/time.h"
#include "drivers/pci/pci.h"
#include "drivers/pci/ports.h"
#include "kernel/memory/memory.h"
#include "kernel/time/clock.h"

enum {
    VENDOR_INTEL = 0x8086,
    DEVICE_6300ESB_WDT = 0x25ab,

    /* Configuration space. QEMU knows these two in their own widths only, so they are not for struct pci_access. */
    WDT_CONFIGURATION = 0x60,  /* 16 bits */
    WDT_INT_TYPE_DISABLED = 3, /* the first stage ends in silence */
    /* Bit 2 clear: a tick is 2^15 of PCI's 33 MHz. Bit 5 clear: the second stage's end resets the machine. */
    TICK_NS = 992970,
    WDT_LOCK = 0x68, /* 8 bits */
    WDT_ENABLE_BIT = 1,

    /* Registers in memory, BAR 0 */
    PRELOAD_1 = 0x00,
    PRELOAD_2 = 0x04, /* 20 bits: the two stages' ticks */
    RELOAD = 0x0c,    /* 16 bits */
    RELOAD_UNLOCK_1 = 0x80,
    RELOAD_UNLOCK_2 = 0x86, /* written before each write to a register */
    RELOAD_NOW = 0x100,
    REGISTER_BYTES = 16,
    STAGE_TICKS_MAX = (1 << 20) - 1,
};

static volatile uint8_t *registers; /* NULL: not started */
static struct pci_list functions;

static void unlock(void)
{
    *(volatile uint16_t *)(registers + RELOAD) = RELOAD_UNLOCK_1;
    *(volatile uint16_t *)(registers + RELOAD) = RELOAD_UNLOCK_2;
}

static void preload_set(uint32_t offset, uint32_t ticks)
{
    ASSERT(ticks != 0 && ticks <= STAGE_TICKS_MAX);
    unlock();
    *(volatile uint32_t *)(registers + offset) = ticks;
}

static const struct pci_function *find(const struct pci_access *access)
{
    pci_scan_bus(access, &functions, access->bus_first);
    for (size_t i = 0; i < functions.count; i++) {
        const struct pci_function *function = &functions.function[i];
        if (function->vendor == VENDOR_INTEL && function->device == DEVICE_6300ESB_WDT) {
            pci_assign(access, &functions, function);
            return function;
        }
    }
    return NULL;
}

bool i6300esb_start(uint64_t timeout_ns)
{
    const struct pci_access *access = pci_access_find();
    const struct pci_function *function = access != NULL ? find(access) : NULL;
    if (function == NULL)
        return false;
    struct pci_address address = function->address;
    struct pci_bar bar = pci_bar_read(access, address, 0);
    if (!bar.present || bar.is_port || bar.base == 0 || bar.bytes < REGISTER_BYTES) {
        log_line("watchdog: i6300esb without an address, left alone");
        return false;
    }
    pci_enable(access, address, clock_spin_us);
    registers = memory_map_device(bar.base, REGISTER_BYTES);

    ASSERT(timeout_ns != 0);
    uint32_t ticks = (uint32_t)min_u64(timeout_ns / (2 * TICK_NS) + 1, STAGE_TICKS_MAX);
    port_out8(pci_port_select(address, WDT_LOCK), 0);
    port_out16(pci_port_select(address, WDT_CONFIGURATION), WDT_INT_TYPE_DISABLED);
    preload_set(PRELOAD_1, ticks);
    preload_set(PRELOAD_2, ticks);
    i6300esb_reload();
    port_out8(pci_port_select(address, WDT_LOCK), (uint8_t)BIT(WDT_ENABLE_BIT));
    uint8_t lock = port_in8(pci_port_select(address, WDT_LOCK));
    if (lock == 0xff || !(lock & BIT(WDT_ENABLE_BIT))) { /* 0xff: nothing answers, the space is in memory alone */
        log_line("watchdog: i6300esb does not start");
        registers = NULL;
        return false;
    }
    log_line("watchdog: i6300esb resets the machine after %u ms",
             (uint32_t)(UINT64_C(2) * ticks * TICK_NS / NS_PER_MS));
    return true;
}

void i6300esb_reload(void)
{
    if (registers != NULL) {
        unlock();
        *(volatile uint16_t *)(registers + RELOAD) = RELOAD_NOW;
    }
}
