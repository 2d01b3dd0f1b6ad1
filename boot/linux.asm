; The header of the Linux boot protocol, and the code in front of the flat image in build/peregrine.bzImage.
; Linux Documentation/arch/x86/boot.rst, "The Real-Mode Kernel Header", "32-bit Boot Protocol", "64-bit Boot Protocol"
; (kexec) and, for loaders that enter in real mode (QEMU's -kernel under SeaBIOS), "Running the Kernel". Built by itself
; (nasm -f bin) with IMAGE_BYTES, INIT_BYTES and ENTRY from the linked image; see tools/workshop/make/image.mk.
;
; The real-mode part is one page, and becomes struct boot_params where it lies. The header stands at the same offset in
; both. The memory map goes to its place after the header, and the code follows the map.

%include "boot/x86_spec.asm"

SETUP_SECTORS   equ 7
STUB_BYTES      equ 8192                ; code, and a page for a copy of struct boot_params
PARAMS_BYTES    equ 4096
ENTRY_64        equ 0x200               ; from where the protected-mode part is loaded; boot.rst
E820_ENTRIES    equ 0x1e8               ; zero-page.rst
E820_TABLE      equ 0x2d0
E820_BYTES      equ 20
E820_COUNT_MAX  equ 128
CODE32_START    equ 0x214
SMAP            equ 0x534d4150
REAL_MODE_STACK equ 0x7000              ; in the same segment, below where any loader puts the command line
BOOT_CS         equ 0x10                ; boot.rst: __BOOT_CS, __BOOT_DS
BOOT_DS         equ 0x18
IMAGE_BEGIN     equ 0x1000000           ; image/linker.ld
LOAD_BEGIN      equ IMAGE_BEGIN - STUB_BYTES

%if INIT_BYTES < STUB_BYTES + IMAGE_BYTES
%error "the stub would move over the image: .bss is shorter than the stub"
%endif

bits 16
org 0
    times 0x1f1 - ($ - $$) db 0
    db SETUP_SECTORS                    ; setup_sects
    dw 0                                ; root_flags
    dd (STUB_BYTES + IMAGE_BYTES + 15) / 16     ; syssize
    dw 0, 0xffff, 0                     ; ram_size, vid_mode (normal), root_dev
    dw 0xaa55                           ; boot_flag
    jmp short real_mode                 ; 0x200
    db "HdrS"
    dw 0x020c                           ; version 2.12: Linux 3.8
    dd 0                                ; realmode_swtch
    dw 0, 0                             ; start_sys_seg, kernel_version
    db 0                                ; type_of_loader: the loader's
    db 1                                ; loadflags: LOADED_HIGH
    dw 0                                ; setup_move_size
    dd 0x100000                         ; code32_start: the loader moves it with the image
    dd 0, 0                             ; ramdisk_image, ramdisk_size
    dd 0                                ; bootsect_kludge
    dw 0                                ; heap_end_ptr
    db 0, 0                             ; ext_loader_ver, ext_loader_type
    dd 0                                ; cmd_line_ptr
    dd 0x7fffffff                       ; initrd_addr_max
    dd STUB_BYTES                       ; kernel_alignment: no half of the stub lies where the image goes
    db 1                                ; relocatable_kernel: so that pref_address counts
    db 13                               ; min_alignment, the same as a power of two
    dw 0x23                             ; xloadflags: XLF_KERNEL_64, XLF_CAN_BE_LOADED_ABOVE_4G, XLF_5LEVEL; no EFI
    dd 4095                             ; cmdline_size
    dd 0                                ; hardware_subarch
    dq 0                                ; hardware_subarch_data
    dd 0, 0                             ; payload_offset, payload_length
    dq 0                                ; setup_data
    dq LOAD_BEGIN                       ; pref_address
    dd STUB_BYTES + INIT_BYTES          ; init_size
    dd 0                                ; handover_offset

real_mode:
    jmp near collect

    times E820_TABLE + E820_COUNT_MAX * E820_BYTES - ($ - $$) db 0

; DS is the segment that the loader put this page at: boot.rst, "Running the Kernel". CS is 0x20 above, or the same with
; kvmtool. From here on it is 0x20 above.
collect:
    cli
    cld
    mov ax, ds
    mov es, ax
    mov ss, ax
    mov sp, REAL_MODE_STACK
    add ax, 0x20
    push ax
    push word .above - 0x200
    retf
.above:
    sti
    ; Switches A20 on by PS/2's BIOS call. A loader that loads high has done so already.
    mov ax, 0x2401
    int 0x15

    ; ACPI 6.4 §15.1 "INT 15H, E820H - Query System Address Map"
    xor ebx, ebx
    mov di, E820_TABLE
.next:
    mov eax, 0xe820
    mov edx, SMAP
    mov ecx, E820_BYTES
    int 0x15
    jc .mapped
    cmp eax, SMAP
    jne .mapped
    add di, E820_BYTES
    inc byte [E820_ENTRIES]
    cmp byte [E820_ENTRIES], E820_COUNT_MAX
    jae .mapped
    test ebx, ebx
    jnz .next
.mapped:
    cli
    mov ax, cs
    sub ax, 0x20
    movzx esi, ax
    shl esi, 4                          ; struct boot_params
    lea eax, [esi + gdt]
    mov [gdt_pointer + 2], eax
    lgdt [gdt_pointer]
    mov eax, [CODE32_START]
    mov [stub_pointer], eax
    mov eax, cr0
    or al, CR0_PE
    mov cr0, eax
    mov ax, BOOT_DS
    mov ds, ax
    mov es, ax
    mov ss, ax
    jmp dword far [cs:stub_pointer - 0x200]

align 8
gdt:
    dq 0, 0
    dq SEGMENT_CODE_32, SEGMENT_DATA
gdt_pointer:
    dw gdt_pointer - gdt - 1
    dd 0
stub_pointer:
    dd 0
    dw BOOT_CS
    times (1 + SETUP_SECTORS) * 512 - ($ - $$) db 0

; Protected mode, flat segments, ESI = struct boot_params, at an address that the loader chose: pref_address is a wish.
; If that place is not free, GRUB takes the lowest one from 16 MiB on. The image then moves to where it belongs, over
; anything that the loader keeps there.
bits 32
stub:
    cli
    cld
    mov ebx, [esi + CODE32_START]       ; this code's address
    lea edi, [ebx + STUB_BYTES - PARAMS_BYTES]
    mov ecx, PARAMS_BYTES
    rep movsb

    ; Leaves the place of the image and its .bss. The last pages that init_size claims from here lie above both, and
    ; above the image as it was loaded, which moves only after this code.
    mov eax, ebx
    cmp ebx, IMAGE_BEGIN
    jb .stay
    cmp ebx, IMAGE_BEGIN + INIT_BYTES
    jae .stay
    mov esi, ebx
    lea edi, [ebx + INIT_BYTES]
    mov eax, edi
    mov ecx, STUB_BYTES
    rep movsb
.stay:
    lea edx, [eax + STUB_BYTES - PARAMS_BYTES]
    add eax, .move - stub
    jmp eax
.move:
    lea esi, [ebx + STUB_BYTES]
    mov edi, IMAGE_BEGIN
    mov ecx, IMAGE_BYTES
    cmp esi, edi
    jae .forward
    std                                 ; upwards, and the two may overlap: the last byte first
    lea esi, [esi + ecx - 1]
    lea edi, [edi + ecx - 1]
.forward:
    rep movsb
    cld
    mov edi, IMAGE_BEGIN + IMAGE_BYTES  ; .bss, which no ELF loader has cleared for us
    mov ecx, INIT_BYTES - IMAGE_BYTES
    xor eax, eax
    rep stosb
    mov esi, edx
    mov eax, ENTRY
    jmp eax
    times ENTRY_64 - ($ - stub) db 0

; Long mode, RSI = struct boot_params, both anywhere in memory that is mapped one to one. An image above 4 GiB is copied
; to where it belongs. From there, or from this place, the 32-bit entry above goes on.
bits 64
stub_64:
    cli
    cld
    lea rbx, [rel stub]
    lea rdi, [rbx + STUB_BYTES - PARAMS_BYTES]
    mov ecx, PARAMS_BYTES
    rep movsb
    mov eax, 0xffffffff - (STUB_BYTES + INIT_BYTES)
    cmp rbx, rax
    jbe .low
    mov rsi, rbx
    mov edi, LOAD_BEGIN
    mov ecx, STUB_BYTES + IMAGE_BYTES
    rep movsb
    mov ebx, LOAD_BEGIN
.low:
    mov [rbx + STUB_BYTES - PARAMS_BYTES + CODE32_START], ebx
    lea rax, [rbx + (low_64 - stub)]
    jmp rax
low_64:
    mov rax, cr4
    and eax, ~CR4_PCIDE                 ; paging cannot be left with it
    mov cr4, rax
    lea rax, [rbx + (stub_gdt - stub)]
    mov [rbx + (stub_gdt_pointer + 2 - stub)], rax
    lgdt [rbx + (stub_gdt_pointer - stub)]
    lea rsp, [rbx + STUB_BYTES - PARAMS_BYTES]
    lea rax, [rbx + (compatible - stub)]
    push BOOT_CS
    push rax
    retfq

bits 32
compatible:
    mov eax, BOOT_DS
    mov ds, eax
    mov es, eax
    mov ss, eax
    mov eax, cr0
    and eax, ~CR0_PG                    ; long mode ends, SDM vol. 3, "Initializing IA-32e Mode", backwards
    mov cr0, eax
    mov ecx, MSR_EFER
    rdmsr
    and eax, ~EFER_LME
    wrmsr
    xor eax, eax
    mov cr4, eax
    lea esi, [ebx + STUB_BYTES - PARAMS_BYTES]
    jmp stub

align 8
stub_gdt:
    dq 0, 0
    dq SEGMENT_CODE_32, SEGMENT_DATA
stub_gdt_pointer:
    dw stub_gdt_pointer - stub_gdt - 1
    dq 0

    times STUB_BYTES - ($ - stub) db 0
