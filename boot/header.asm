; The headers of two boot protocols, by which a loader finds the entry points: the Multiboot2 header and the PVH note.
; Multiboot2 Specification 2.0 §3.1; Xen "x86/HVM direct boot ABI" (PVH), public/elfnote.h.

extern pvh_entry

MULTIBOOT2_HEADER_MAGIC         equ 0xe85250d6
MULTIBOOT2_ARCHITECTURE_I386    equ 0           ; entered in 32-bit protected mode, whatever the firmware
MULTIBOOT2_TAG_END              equ 0
MULTIBOOT2_TAG_FRAMEBUFFER      equ 5
MULTIBOOT2_OPTIONAL             equ 1

XEN_ELFNOTE_PHYS32_ENTRY        equ 18

; Multiboot2 2.0 §3.1.1: within the first 32768 bytes of the file and aligned to 8; the linker script puts it first.
section .multiboot2 progbits alloc noexec nowrite align=8
header:
    dd MULTIBOOT2_HEADER_MAGIC
    dd MULTIBOOT2_ARCHITECTURE_I386
    dd header_end - header
    dd -(MULTIBOOT2_HEADER_MAGIC + MULTIBOOT2_ARCHITECTURE_I386 + (header_end - header)) & 0xffffffff

    ; Multiboot2 2.0 §3.1.10: a framebuffer of any size is welcome (UEFI has no text mode), text mode is as good.
    align 8
    dw MULTIBOOT2_TAG_FRAMEBUFFER, MULTIBOOT2_OPTIONAL
    dd 20
    dd 0, 0, 32                                 ; width, height: no preference; 32 bits a pixel

    align 8
    dw MULTIBOOT2_TAG_END, 0
    dd 8
header_end:

; The name and the descriptor are each padded to 4 bytes. The descriptor is 8 bytes as in Linux: QEMU reads that many.
section .note.pvh note alloc noexec nowrite align=4
    dd 4, 8, XEN_ELFNOTE_PHYS32_ENTRY
    db "Xen", 0
    dq pvh_entry
