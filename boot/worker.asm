; Brings a worker from its first instruction to worker_main. kernel/cpu/workers.c copies the beginning below
; 1 MiB. SDM vol. 3, "Multiple-Processor (MP) Initialization": real mode, CS:IP = page:0, interrupts off.

%include "boot/x86_spec.asm"

extern boot_pml4, worker_main, worker_stack_top

CODE_32_SELECTOR        equ 0x18        ; in worker_gdt

bits 16
section .boot.rodata progbits alloc noexec nowrite align=16
global cpu_start_begin, cpu_start_end
cpu_start_begin:
    cli
    o32 lgdt [cs:.gdt_pointer - cpu_start_begin]
    mov eax, cr0
    or al, CR0_PE
    mov cr0, eax
    jmp dword CODE_32_SELECTOR:worker_32
.gdt_pointer:
    dw 4 * 8 - 1
    dd worker_gdt
cpu_start_end:

align 8
worker_gdt:
    dq 0, SEGMENT_CODE_64, SEGMENT_DATA, SEGMENT_CODE_32

bits 32
section .boot.text progbits alloc exec nowrite align=16
worker_32:
    mov eax, DATA_SELECTOR
    mov ds, eax
    mov es, eax
    mov ss, eax
    ENABLE_LONG_MODE
    jmp CODE_SELECTOR:worker_64

bits 64
worker_64:
    xor eax, eax
    mov fs, eax
    mov gs, eax
    ; A stack goes to one CPU: one that comes too late finds none.
    xchg rax, [rel worker_stack_top]
    test rax, rax
    jz .late
    mov rsp, rax
    xor ebp, ebp                        ; ends every backtrace
    push rbp
    push rbp
    mov rbp, rsp
    call worker_main
.late:
    cli
    hlt
    jmp .late
