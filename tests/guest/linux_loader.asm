; A loader for the Linux boot protocol. It puts build/peregrine.bzImage at addresses that GRUB and kexec seldom use.
; Multiboot 1 for QEMU's -kernel; test_linux_loader.py builds it with nasm -f bin and
;
;     BZIMAGE, KERNEL_AT    the file, and where its protected-mode part goes
;     PARAMS_AT             where struct boot_params goes
;     ENTER_64              1: the 64-bit entry, in long mode, else the 32-bit one
;     HOLE_BEGIN, HOLE_END  a range that the memory map calls reserved
;     TABLES, TABLES_AT     a file with ACPI tables, and their address: a page that the map marks as ACPI tables
;     RSDP_AT               the address of the RSDP in boot_params; 0: none
;     EFI_AT                the address of UEFI's system table, of 64 bits; 0: none
;     COMMAND_LINE          the settings
;     ENTER_16              1: in real mode, with CS = DS as kvmtool does; PARAMS_AT is then below 640 KiB
;
; The machine has 512 MiB below 4 GiB, and 1 GiB above.

LOADER_AT       equ 0x8000000           ; out of the way of everything
LEAVE_AT        equ 0x8000
PAGING_AT       equ 0x9000000
HEADER_BYTES    equ 0x270 - 0x1f1       ; boot.rst: of struct setup_header

bits 32
org LOADER_AT
    dd 0x1badb002, 1 << 16, -(0x1badb002 + (1 << 16)) & 0xffffffff      ; Multiboot 0.6.96 §3.1
    dd LOADER_AT, LOADER_AT, 0, 0, start

start:
    lgdt [gdt_pointer]
    jmp 0x10:.flat
.flat:
    mov eax, 0x18
    mov ds, eax
    mov es, eax
    mov ss, eax
    mov edi, PAGING_AT                  ; long mode, and eight pages of 1 GiB, one to one
    mov ecx, 4096 * 2 / 4
    xor eax, eax
    rep stosd
    mov dword [PAGING_AT], PAGING_AT + 4096 + 3
    mov edi, PAGING_AT + 4096
    xor edx, edx
    mov eax, 0x83
.page:
    mov [edi], eax
    mov [edi + 4], edx
    add edi, 8
    add eax, 1 << 30
    adc edx, 0
    cmp edx, 2
    jb .page
    mov eax, 1 << 5                     ; PAE
    mov cr4, eax
    mov eax, PAGING_AT
    mov cr3, eax
    mov ecx, 0xc0000080                 ; EFER: LME
    rdmsr
    or eax, 1 << 8
    wrmsr
    mov eax, 1 << 31 | 1                ; PG, PE
    mov cr0, eax
    jmp 0x20:mode_64

bits 64
mode_64:
    mov esi, params
    mov rdi, PARAMS_AT
    mov ecx, 4096
    rep movsb
    mov esi, kernel
    mov rdi, KERNEL_AT
    mov ecx, kernel_end - kernel
    rep movsb
    mov esi, tables
    mov rdi, TABLES_AT
    mov ecx, tables_end - tables
    rep movsb
    mov rsi, PARAMS_AT
%if ENTER_16
    mov esi, real_mode_part
    mov rdi, PARAMS_AT
    mov ecx, (1 + 7) * 512
    rep movsb
    mov byte [PARAMS_AT + 0x210], 0xff  ; type_of_loader
    mov dword [PARAMS_AT + 0x214], KERNEL_AT
    mov dword [PARAMS_AT + 0x228], command_line
    mov esi, to_real                    ; below 64 KiB, as code of 16 bits must lie
    mov edi, LEAVE_AT
    mov ecx, to_real_end - to_real
    rep movsb
%endif
%if ENTER_64
    mov rax, KERNEL_AT + 0x200
    jmp rax
%else
    mov esp, PAGING_AT
    push 0x10
    push mode_32
    retfq
bits 32
mode_32:
    mov eax, cr0
    and eax, ~(1 << 31)
    mov cr0, eax
    mov ecx, 0xc0000080
    rdmsr
    and eax, ~(1 << 8)
    wrmsr
%if ENTER_16
    jmp 0x28:LEAVE_AT
%endif
    mov eax, KERNEL_AT
    jmp eax
%endif

bits 16
to_real:
    mov ax, 0x30
    mov ds, ax
    mov es, ax
    mov ss, ax
    lidt [cs:LEAVE_AT + bios_vectors - to_real]
    xor eax, eax
    mov cr4, eax
    mov eax, cr0
    and eax, ~1                         ; PE
    mov cr0, eax
    jmp 0:LEAVE_AT + .real - to_real
.real:
    mov ax, PARAMS_AT >> 4
    mov ds, ax
    mov es, ax
    mov ss, ax
    mov sp, 0xe000
    jmp PARAMS_AT >> 4:0x200
bios_vectors:
    dw 0x3ff
    dd 0
to_real_end:

align 8
gdt:
    dq 0, 0
    dq 0x00cf9a000000ffff               ; code, 32-bit, flat
    dq 0x00cf92000000ffff               ; data
    dq 0x00af9a000000ffff               ; code, 64-bit
    dq 0x00009a000000ffff               ; code, 16-bit
    dq 0x000092000000ffff               ; data, 16-bit
gdt_pointer:
    dw gdt_pointer - gdt - 1
    dd gdt

command_line:
    db COMMAND_LINE, 0

align 16
params:
    times 0x70 - ($ - params) db 0
    dq RSDP_AT                          ; acpi_rsdp_addr
    times 0x1c0 - ($ - params) db 0
%if EFI_AT
    db "EL64"                           ; efi_info
    dd EFI_AT & 0xffffffff
    times 0x1d8 - ($ - params) db 0
    dd EFI_AT >> 32
%endif
    times 0x1e8 - ($ - params) db 0
    db 6                                ; e820_entries
    times 0x1f1 - ($ - params) db 0
    incbin BZIMAGE, 0x1f1, 0x210 - 0x1f1
    db 0xff                             ; type_of_loader: unknown
    incbin BZIMAGE, 0x211, 0x214 - 0x211
    dd KERNEL_AT & 0xffffffff           ; code32_start
    incbin BZIMAGE, 0x218, 0x228 - 0x218
    dd command_line                     ; cmd_line_ptr
    incbin BZIMAGE, 0x22c, 0x270 - 0x22c
    times 0x2d0 - ($ - params) db 0
%macro region 3
    dq %1, (%2) - (%1)
    dd %3
%endmacro
    region 0, 0x9f000, 1
    region 0x100000, HOLE_BEGIN, 1
    region HOLE_BEGIN, HOLE_END, 2
    region HOLE_END, 0x20000000, 1
    region 0x100000000, 0x140000000, 1
    region TABLES_AT, TABLES_AT + 4096, 3
    times 4096 - ($ - params) db 0

real_mode_part:
    incbin BZIMAGE, 0, (1 + 7) * 512

kernel:
    incbin BZIMAGE, (1 + 7) * 512       ; setup_sects of boot/linux.asm
kernel_end:

tables:
    incbin TABLES
tables_end:
