; Brings a second CPU from its first instruction to second_cpu_main. kernel/cpu/second_cpu.c copies the beginning below
; 1 MiB. SDM vol. 3, "Multiple-Processor (MP) Initialization": real mode, CS:IP = page:0, interrupts off.

extern boot_pml4, second_cpu_main, stacks

%define STACK_BYTES (4096 + 65536)       ; with its guard; kernel/cpu/stacks.h
%define STACK_SECOND 5                   ; its place in enum stack_id; asserted in kernel/cpu/stacks.c

bits 16
section .boot.rodata progbits alloc noexec nowrite align=16
global cpu_start_begin, cpu_start_end
cpu_start_begin:
    cli
    o32 lgdt [cs:.gdt_pointer - cpu_start_begin]
    mov eax, cr0
    or al, 1
    mov cr0, eax
    jmp dword 0x18:second_32
.gdt_pointer:
    dw 4 * 8 - 1
    dd second_gdt
cpu_start_end:

align 8
second_gdt:                             ; the first two are those of boot/entry.asm and kernel/cpu/segments.c
    dq 0
    dq 0x00af9a000000ffff               ; code, 64-bit, ring 0
    dq 0x00cf92000000ffff               ; data
    dq 0x00cf9a000000ffff               ; code, 32-bit

bits 32
section .boot.text progbits alloc exec nowrite align=16
second_32:
    mov eax, 0x10
    mov ds, eax
    mov es, eax
    mov ss, eax
    mov eax, 1 << 5 | 1 << 9 | 1 << 10  ; CR4: PAE, OSFXSR, OSXMMEXCPT
    mov cr4, eax
    mov eax, boot_pml4
    mov cr3, eax
    mov ecx, 0xc0000080                 ; EFER: LME, NXE
    rdmsr
    or eax, 1 << 8 | 1 << 11
    wrmsr
    mov eax, 1 << 31 | 1 << 16 | 1 << 5 | 1 << 4 | 1 << 1 | 1 << 0     ; CR0: PG, WP, NE, ET, MP, PE
    mov cr0, eax
    jmp 0x08:second_64

bits 64
second_64:
    xor eax, eax
    mov fs, eax
    mov gs, eax
    mov rsp, stacks + (STACK_SECOND + 1) * STACK_BYTES
    xor ebp, ebp
    push rbp                            ; ends a backtrace
    push rbp                            ; and aligned to 16 at the call
    call second_cpu_main
    ud2
