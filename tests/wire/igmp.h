/* IGMP messages as a timeline writes them. README.md has the language. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "tests/lib/igmp_packet.h"
#include "tests/wire/script.h"

/* Reads an address, a.b.c.d, as a number in host order. */
uint32_t wire_igmp_address(struct script *s);

/* Reads a message to the stack, to the end of the line. */
void wire_igmp_read(struct script *s, struct igmp_packet *message);

/* Reads the text of a message of the stack, to the end of the line. */
void wire_igmp_text(struct script *s, char *text, size_t text_bytes);
