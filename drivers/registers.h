/* A block of device registers, in memory or in port space; little-endian, in accesses of exactly the stated width. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/assert.h"
#include "kernel/cpu/ports.h"

struct registers {
    volatile uint8_t *memory; /* NULL: ports */
    uint16_t port;
};

static inline struct registers registers_at(struct registers block, uint32_t offset)
{
    return (struct registers){ block.memory ? block.memory + offset : NULL, (uint16_t)(block.port + offset) };
}

static inline uint8_t registers_read8(struct registers block, uint32_t offset)
{
    return block.memory ? block.memory[offset] : port_in8((uint16_t)(block.port + offset));
}

static inline uint16_t registers_read16(struct registers block, uint32_t offset)
{
    return block.memory ? *(volatile uint16_t *)(block.memory + offset) : port_in16((uint16_t)(block.port + offset));
}

static inline uint32_t registers_read32(struct registers block, uint32_t offset)
{
    return block.memory ? *(volatile uint32_t *)(block.memory + offset) : port_in32((uint16_t)(block.port + offset));
}

static inline void registers_write8(struct registers block, uint32_t offset, uint8_t value)
{
    if (block.memory)
        block.memory[offset] = value;
    else
        port_out8((uint16_t)(block.port + offset), value);
}

static inline void registers_write16(struct registers block, uint32_t offset, uint16_t value)
{
    if (block.memory)
        *(volatile uint16_t *)(block.memory + offset) = value;
    else
        port_out16((uint16_t)(block.port + offset), value);
}

static inline void registers_write32(struct registers block, uint32_t offset, uint32_t value)
{
    if (block.memory)
        *(volatile uint32_t *)(block.memory + offset) = value;
    else
        port_out32((uint16_t)(block.port + offset), value);
}

/* Reads 1, 2 or 4 bytes in one access. */
static inline uint32_t registers_read(struct registers block, uint32_t offset, uint8_t bytes)
{
    ASSERT(bytes == 1 || bytes == 2 || bytes == 4);
    return bytes == 1   ? registers_read8(block, offset)
           : bytes == 2 ? registers_read16(block, offset)
                        : registers_read32(block, offset);
}
