/* GDT and TSS: flat segments, and the stacks that exceptions switch to. */
#pragma once

enum {
    SELECTOR_CODE = 0x08,       /* boot/entry.asm starts with the same two */
    SELECTOR_DATA = 0x10,
    SELECTOR_TSS = 0x18,
};

/* Interrupt stack table slots, as an IDT gate names them. */
enum { IST_TRAP = 1, IST_DOUBLE_FAULT, IST_NMI, IST_MACHINE_CHECK };

void segments_init(void);

/* In the NMI's handler, which is not going to return: the next NMI gets another stack, and may come. */
void segments_let_nmi_in(void);
void segments_init_second(void);     /* on the second CPU */
