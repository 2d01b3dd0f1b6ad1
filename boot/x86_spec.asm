; The bits of the processor's registers and tables that the ways to long mode share. Included; makes no code of its own.
; Intel SDM vol. 3, "Control Registers", "4-Level Paging", "Segment Descriptors"; vol. 4, IA32_EFER.

CR0_PE                  equ 1 << 0
CR0_MP                  equ 1 << 1
CR0_ET                  equ 1 << 4
CR0_NE                  equ 1 << 5
CR0_WP                  equ 1 << 16
CR0_PG                  equ 1 << 31
CR0_LONG_MODE           equ CR0_PG | CR0_WP | CR0_NE | CR0_ET | CR0_MP | CR0_PE     ; EM and TS clear: SSE works
CR4_PAE                 equ 1 << 5
CR4_OSFXSR              equ 1 << 9
CR4_OSXMMEXCPT          equ 1 << 10
CR4_PCIDE               equ 1 << 17
CR4_LONG_MODE           equ CR4_PAE | CR4_OSFXSR | CR4_OSXMMEXCPT
MSR_EFER                equ 0xc0000080
EFER_LME                equ 1 << 8
EFER_NXE                equ 1 << 11

PAGE_PRESENT            equ 1 << 0
PAGE_WRITE              equ 1 << 1
PAGE_LARGE              equ 1 << 7

; Flat segments of ring 0, present, of 4 GiB.
SEGMENT_CODE_64         equ 0x00af9a000000ffff
SEGMENT_CODE_32         equ 0x00cf9a000000ffff
SEGMENT_DATA            equ 0x00cf92000000ffff

; The kernel's selectors: boot/entry.asm begins with them, kernel/cpu/segments.c takes over with a TSS.
CODE_SELECTOR           equ 0x08
DATA_SELECTOR           equ 0x10

STACK_BYTES             equ 4096 + 65536        ; with its guard page; asserted in kernel/cpu/stacks.c

; Turns long mode on over the page tables at boot_pml4; a far jump has to follow. Changes eax, ecx, edx.
; SDM vol. 3, "Initializing IA-32e Mode": PAE, CR3, EFER.LME, then paging.
%macro ENABLE_LONG_MODE 0
    mov eax, CR4_LONG_MODE
    mov cr4, eax
    mov eax, boot_pml4
    mov cr3, eax
    mov ecx, MSR_EFER
    rdmsr
    or eax, EFER_LME | EFER_NXE
    wrmsr
    mov eax, CR0_LONG_MODE
    mov cr0, eax
%endmacro
