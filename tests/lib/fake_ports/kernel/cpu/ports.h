/* kernel/cpu/ports.h for hosted programs, which may not touch ports. The drivers' objects of build/test find this file
 * first; tests/lib/fake_ports.h is the test's side. */
#pragma once

#include <stdint.h>

uint8_t port_in8(uint16_t port);
uint16_t port_in16(uint16_t port);
uint32_t port_in32(uint16_t port);
void port_out8(uint16_t port, uint8_t value);
void port_out16(uint16_t port, uint16_t value);
void port_out32(uint16_t port, uint32_t value);
