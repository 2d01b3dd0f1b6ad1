/* GDT and TSS: flat segments, and the stacks that exceptions switch to. */
#pragma once

#include <stdint.h>

enum {
    SELECTOR_CODE = 0x08, /* boot/entry.asm starts with the same two */
    SELECTOR_DATA = 0x10,
    SELECTOR_TSS = 0x18,
};

/* Interrupt stack table slots, as an IDT gate names them. */
enum { IST_TRAP = 1, IST_DOUBLE_FAULT, IST_NMI, IST_MACHINE_CHECK };

/* Loads the tables of the first CPU. */
void segments_init(void);

/* Loads the tables of a worker, on which it runs. */
void segments_init_worker(uint32_t worker);

/* Lets the next NMI come, on another stack. For the NMI's handler, if it is not going to return. */
void segments_unblock_nmi(void);
