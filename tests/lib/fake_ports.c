#include "tests/lib/fake_ports.h"

#include <stddef.h>

#include "base/bytes.h"
#include "tests/lib/fake_ports/kernel/cpu/ports.h"

uint8_t fake_ports[FAKE_PORT_COUNT + 4];
uint32_t (*fake_ports_read)(uint16_t port, uint32_t bytes, uint32_t kept);
void (*fake_ports_written)(uint16_t port, uint32_t bytes, uint32_t value);

void fake_ports_reset(uint8_t value)
{
    memset(fake_ports, value, sizeof fake_ports);
    fake_ports_read = NULL;
    fake_ports_written = NULL;
}

static uint32_t in(uint16_t port, uint32_t bytes, uint32_t kept)
{
    return fake_ports_read != NULL ? fake_ports_read(port, bytes, kept) : kept;
}

static void out(uint16_t port, uint32_t bytes, uint32_t value)
{
    if (fake_ports_written != NULL)
        fake_ports_written(port, bytes, value);
}

uint8_t port_in8(uint16_t port) { return (uint8_t)in(port, 1, fake_ports[port]); }
uint16_t port_in16(uint16_t port) { return (uint16_t)in(port, 2, load_le16(fake_ports + port)); }
uint32_t port_in32(uint16_t port) { return in(port, 4, load_le32(fake_ports + port)); }

void port_out8(uint16_t port, uint8_t value)
{
    fake_ports[port] = value;
    out(port, 1, value);
}

void port_out16(uint16_t port, uint16_t value)
{
    store_le16(fake_ports + port, value);
    out(port, 2, value);
}

void port_out32(uint16_t port, uint32_t value)
{
    store_le32(fake_ports + port, value);
    out(port, 4, value);
}
