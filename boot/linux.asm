; The third door's outside: what stands in front of the flat image in build/peregrine.bzImage.
; Linux Documentation/arch/x86/boot.rst, "The Real-Mode Kernel Header" and "32-bit Boot Protocol". Built by itself
; (nasm -f bin) with IMAGE_BYTES, INIT_BYTES and ENTRY from the linked image; see tools/make/image.mk.

SETUP_SECTORS   equ 1
STUB_BYTES      equ 4096
IMAGE_BEGIN     equ 0x1000000           ; boot/linker.ld
LOAD_BEGIN      equ IMAGE_BEGIN - STUB_BYTES

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
    dd 4096                             ; kernel_alignment
    db 1                                ; relocatable_kernel: so that pref_address counts
    db 12                               ; min_alignment, a power of two
    dw 0                                ; xloadflags: neither 64-bit entry nor EFI
    dd 4095                             ; cmdline_size
    dd 0                                ; hardware_subarch
    dq 0                                ; hardware_subarch_data
    dd 0, 0                             ; payload_offset, payload_length
    dq 0                                ; setup_data
    dq LOAD_BEGIN                       ; pref_address
    dd STUB_BYTES + INIT_BYTES          ; init_size
    dd 0                                ; handover_offset

; A loader that enters here uses the 16-bit protocol, which Linux itself needs no more. The next boot is Linux.
real_mode:
    int 0x19
    jmp $
    times (1 + SETUP_SECTORS) * 512 - ($ - $$) db 0

; Protected mode, flat segments, ESI = struct boot_params, at whatever address the loader chose.
bits 32
stub:
    cli
    cld
    mov ebx, [esi + 0x214]              ; code32_start: where we are
    cmp ebx, LOAD_BEGIN
    je .there
    mov edx, esi
    lea esi, [ebx + STUB_BYTES]
    mov edi, IMAGE_BEGIN
    mov ecx, IMAGE_BYTES
    rep movsb
    mov esi, edx
.there:
    mov edi, IMAGE_BEGIN + IMAGE_BYTES   ; .bss, which no ELF loader has cleared for us
    mov ecx, INIT_BYTES - IMAGE_BYTES
    xor eax, eax
    rep stosb
    mov eax, ENTRY
    jmp eax
    times STUB_BYTES - ($ - stub) db 0
