; Brings a second CPU from its first instruction to second_cpu_main. kernel/cpu/workers.c copies the beginning below
; 1 MiB. SDM vol. 3, "Multiple-Processor (MP) Initialization": real mode, CS:IP = page:0, interrupts off.

%include "boot/x86_spec.asm"

extern boot_pml4, second_cpu_main, stacks

STACK_SECOND            equ 5           ; the place in enum stack_id; asserted in kernel/cpu/stacks.c
CODE_32_SELECTOR        equ 0x18        ; in second_gdt

bits 16
section .boot.rodata progbits alloc noexec nowrite align=16
global cpu_start_begin, cpu_start_end
cpu_start_begin:
    cli
    o32 lgdt [cs:.gdt_pointer - cpu_start_begin]
    mov eax, cr0
    or al, CR0_PE
    mov cr0, eax
    jmp dword CODE_32_SELECTOR:second_32
.gdt_pointer:
    dw 4 * 8 - 1
    dd second_gdt
cpu_start_end:

align 8
second_gdt:
    dq 0, SEGMENT_CODE_64, SEGMENT_DATA, SEGMENT_CODE_32

bits 32
section .boot.text progbits alloc exec nowrite align=16
second_32:
    mov eax, DATA_SELECTOR
    mov ds, eax
    mov es, eax
    mov ss, eax
    ENABLE_LONG_MODE
    jmp CODE_SELECTOR:second_64

bits 64
second_64:
    xor eax, eax
    mov fs, eax
    mov gs, eax
    mov rsp, stacks + (STACK_SECOND + 1) * STACK_BYTES
    xor ebp, ebp                        ; ends every backtrace
    push rbp
    push rbp
    mov rbp, rsp
    call second_cpu_main
    ud2
