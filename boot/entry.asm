; From the loader's 32-bit protected mode to kernel_main in long mode.
;
; Both protocols promise: flat 4 GiB segments, paging off, interrupts off, A20 on, EBX = the information's address.
; Multiboot2 2.0 §3.3 "I386 machine state"; Xen PVH, "x86/HVM direct boot ABI". The tables made here map the first
; 4 GiB, writable and executable; kernel/memory/paging.c replaces them by the real ones a moment later.

%include "boot/x86_spec.asm"

extern kernel_main, stacks, image_end, rodata_end

MULTIBOOT2_BOOTLOADER_MAGIC equ 0x36d76289
BOOT_MULTIBOOT2         equ 0           ; enum boot_protocol, kernel/firmware/boot_info.h
BOOT_PVH                equ 1
BOOT_LINUX              equ 2
STACK_MAIN_TOP          equ stacks + STACK_BYTES    ; STACK_MAIN, asserted in kernel/cpu/stacks.c

EFLAGS_ID               equ 1 << 21

PAGE_BYTES              equ 4096
MEMORY_PATTERN          equ 0x5aa5c33c  ; neither it nor its complement is what absent memory reads as

COM1                    equ 0x3f8
VGA_TEXT                equ 0xb8000
BDA_EBDA_SEGMENT        equ 0x40e       ; BIOS data area: where the extended one begins, or 0

bits 32
section .boot.text progbits alloc exec nowrite align=16

global multiboot2_entry
multiboot2_entry:
    cld
    mov esp, boot_stack_top
    mov edi, BOOT_MULTIBOOT2
    mov esi, ebx
    cmp eax, MULTIBOOT2_BOOTLOADER_MAGIC
    je start
    call serial_init
    mov ebx, message_loader
    jmp refuse

global pvh_entry
pvh_entry:
    cld
    mov esp, boot_stack_top
    mov edi, BOOT_PVH
    mov esi, ebx
    jmp start

; From boot/linux.asm; ESI = struct boot_params already.
global linux_entry
linux_entry:
    cld
    mov esp, boot_stack_top
    mov edi, BOOT_LINUX

; EDI = protocol, ESI = information. Both survive until kernel_main.
start:
    cli
    call serial_init
    call check_memory
    movzx eax, word [BDA_EBDA_SEGMENT]  ; for kernel/firmware/acpi.c: page zero will be gone by then
    shl eax, 4
    mov [boot_ebda], eax
    call check_cpu
    call map_first_4gib

    ENABLE_LONG_MODE
    lgdt [boot_gdt_pointer]
    jmp CODE_SELECTOR:enter_64

; ---- can it run here? ----

; Refuses if there is no memory at the image's end: loaders copy the file without a look at the .bss that follows. Up
; to here nothing has touched .bss. EDI and ESI survive.
check_memory:
    mov ebp, image_end
.next:
    sub ebp, PAGE_BYTES
    mov eax, [ebp]
    mov dword [ebp], MEMORY_PATTERN
    cmp dword [ebp], MEMORY_PATTERN
    jne .absent
    not dword [ebp]
    cmp dword [ebp], ~MEMORY_PATTERN
    jne .absent
    mov [ebp], eax
    cmp ebp, image_end - PAGE_BYTES
    jne .too_small
    ret
.absent:
    cmp ebp, rodata_end
    ja .next
.too_small:
    lea eax, [ebp + PAGE_BYTES]
    mov edi, message_ram_end
    call write_hex
    mov eax, image_end
    mov edi, message_image_end
    call write_hex
    mov ebx, message_memory
    jmp refuse

; These lie in front of all other data: the lowest memory exists if any does. Writable until the real page tables.
align 16
boot_stack:         times 256 db 0      ; until long mode
boot_stack_top:
message_memory:     db "memory: RAM ends at 0x"
message_ram_end:    db "........, the image at 0x"
message_image_end:  db "........", 0

; Writes EAX as eight hexadecimal digits at EDI.
write_hex:
    mov ecx, 8
.next:
    rol eax, 4
    mov edx, eax
    and edx, 15
    mov dl, [hex_digits + edx]
    mov [edi], dl
    inc edi
    loop .next
    ret

; Refuses a CPU that lacks a feature, by the feature's name. Each row: leaf, bit mask of EDX, message.
check_cpu:
    pushfd                              ; SDM vol. 2, CPUID: there is one iff EFLAGS.ID can be changed
    pop eax
    mov ecx, eax
    xor eax, EFLAGS_ID
    push eax
    popfd
    pushfd
    pop eax
    mov ebx, message_cpuid
    cmp eax, ecx
    je refuse

    mov ebp, needs
.next:
    ; The leaf must exist: EAX of leaf 0 or 0x80000000 is the highest one.
    mov eax, [ebp]
    and eax, 0x80000000
    cpuid
    cmp eax, [ebp]
    jb .missing
    mov eax, [ebp]
    cpuid
    and edx, [ebp + 4]
    cmp edx, [ebp + 4]
    jne .missing
    add ebp, 12
    cmp ebp, needs_end
    jb .next
    ret
.missing:
    mov ebx, [ebp + 8]
    jmp refuse

; ---- the first page tables ----

; Four page directories of 512 entries of 2 MiB, one page directory pointer table, one top.
map_first_4gib:
    mov eax, boot_pdpt + (PAGE_PRESENT | PAGE_WRITE)
    mov [boot_pml4], eax
    mov eax, boot_pd + (PAGE_PRESENT | PAGE_WRITE)
    xor ecx, ecx
.pdpt:
    mov [boot_pdpt + ecx * 8], eax
    add eax, 4096
    inc ecx
    cmp ecx, 4
    jb .pdpt
    mov eax, PAGE_PRESENT | PAGE_WRITE | PAGE_LARGE
    xor ecx, ecx
.pd:
    mov [boot_pd + ecx * 8], eax
    add eax, 2 << 20
    inc ecx
    cmp ecx, 4 * 512
    jb .pd
    ret

; ---- messages and the way out ----

; 115200 baud, 8N1, FIFO on (16550 data sheet, "Line Control Register").
serial_init:
    push esi
    mov esi, serial_settings
.next:
    movzx edx, byte [esi]
    add edx, COM1
    mov al, [esi + 1]
    out dx, al
    add esi, 2
    cmp esi, serial_settings_end
    jb .next
    pop esi
    ret

; Prints "peregrine: " and the message at EBX on the serial line and the VGA text screen, waits so that it can be read,
; and resets. The boot loader's next choice is Linux.
refuse:
    push ebx
    mov edi, VGA_TEXT
    mov ebx, message_prefix
    call print
    pop ebx
    call print
    mov ebx, message_end
    call print
    ; Waits 5 s: an access to port 0x80 takes about a microsecond, or 0.2 us under QEMU's TCG.
    mov ecx, 5000000
.wait:
    in al, 0x80
    dec ecx
    jnz .wait
    mov al, 0x06                        ; the chipset's reset control register, then the keyboard controller
    mov dx, 0xcf9
    out dx, al
    mov al, 0xfe
    out 0x64, al
    mov ecx, 1000000
.wait_again:
    in al, 0x80
    dec ecx
    jnz .wait_again
    lidt [no_idt]                       ; a triple fault, which no machine survives
    int3
    jmp $

; EBX = text, EDI = where on the VGA screen; both advance.
print:
    mov al, [ebx]
    test al, al
    jz .done
    mov ecx, 100000                     ; a line that never gets ready is not waited for
    mov ah, al
.wait:
    mov dx, COM1 + 5
    in al, dx
    test al, 0x20
    jnz .ready
    dec ecx
    jnz .wait
.ready:
    mov al, ah
    mov dx, COM1
    out dx, al
    cmp al, ' '
    jb .no_screen
    mov ah, 0x0f
    mov [edi], ax
    add edi, 2
.no_screen:
    inc ebx
    jmp print
.done:
    ret

; ---- long mode ----

bits 64
enter_64:
    mov eax, DATA_SELECTOR
    mov ds, eax
    mov es, eax
    mov ss, eax
    xor eax, eax
    mov fs, eax
    mov gs, eax
    fninit
    mov rsp, STACK_MAIN_TOP
    mov edi, edi                        ; the upper halves are undefined after the change of mode
    mov esi, esi
    xor ebp, ebp                        ; ends every backtrace
    push rbp
    push rbp
    mov rbp, rsp
    call kernel_main
    ud2

section .boot.rodata progbits alloc noexec nowrite align=8

align 8
boot_gdt:
    dq 0
    dq SEGMENT_CODE_64, SEGMENT_DATA
boot_gdt_end:
boot_gdt_pointer:
    dw boot_gdt_end - boot_gdt - 1
    dd boot_gdt
no_idt:
    dw 0
    dd 0

needs:      ; SDM vol. 2, CPUID leaves 1 and 0x80000001, EDX
    dd 1, 1 << 4 | 1 << 5, message_tsc
    dd 1, 1 << 3 | 1 << 6 | 1 << 16, message_paging
    dd 1, 1 << 0 | 1 << 24 | 1 << 25 | 1 << 26, message_sse2
    dd 0x80000001, 1 << 29, message_long_mode
    dd 0x80000001, 1 << 20, message_nx
needs_end:

serial_settings:    ; register, value
    db 1, 0x00      ; interrupt enable: none
    db 3, 0x80      ; line control: divisor latch
    db 0, 0x01      ; divisor 1
    db 1, 0x00
    db 3, 0x03      ; 8 bits, no parity, 1 stop bit
    db 2, 0x07      ; FIFO: enable, clear both
    db 4, 0x03      ; modem control: DTR, RTS
serial_settings_end:

message_prefix:     db "peregrine: ", 0
message_loader:     db "the loader does not speak Multiboot2", 0
message_cpuid:      db "this CPU has no CPUID instruction", 0
message_tsc:        db "this CPU has no time-stamp counter or no MSRs", 0
message_paging:     db "this CPU lacks 2 MiB pages, PAE or PAT", 0
message_sse2:       db "this CPU has no x87, FXSR, SSE or SSE2", 0
message_long_mode:  db "this CPU has no 64-bit mode", 0
message_nx:         db "this CPU (or its firmware setting) has no NX pages", 0
message_end:        db "; cannot run here, rebooting", 13, 10, 0
hex_digits:         db "0123456789abcdef"

section .boot.bss nobits alloc noexec write align=4096
global boot_pml4
boot_pml4:  resb 4096
boot_pdpt:  resb 4096
boot_pd:    resb 4 * 4096
global boot_ebda
boot_ebda:  resd 1
