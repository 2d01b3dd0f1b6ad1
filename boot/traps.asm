; One stub for each vector: makes the frame of struct trap_frame (kernel/cpu/traps.h) and calls trap_handle.

extern trap_handle

bits 64
section .text

; These vectors push an error code; all others get a 0 in its place. SDM vol. 3, "Protected-Mode Exceptions and
; Interrupts".
%define HAS_ERROR(v) ((v) = 8 || ((v) >= 10 && (v) <= 14) || (v) = 17 || (v) = 21 || (v) = 29 || (v) = 30)

%assign vector 0
%rep 256
trap_stub_%+vector:
%if !HAS_ERROR(vector)
    push qword 0
%endif
    push qword vector
    jmp trap_common
%assign vector vector + 1
%endrep

; The stack is aligned to 16 here: the CPU aligns it before it pushes, and 22 words lie on it at the call.
trap_common:
    push r15
    push r14
    push r13
    push r12
    push r11
    push r10
    push r9
    push r8
    push rbp
    push rdi
    push rsi
    push rdx
    push rcx
    push rbx
    push rax
    cld
    mov rdi, rsp
    call trap_handle
    pop rax
    pop rbx
    pop rcx
    pop rdx
    pop rsi
    pop rdi
    pop rbp
    pop r8
    pop r9
    pop r10
    pop r11
    pop r12
    pop r13
    pop r14
    pop r15
    add rsp, 16
    iretq

section .rodata
global trap_stubs
align 8
trap_stubs:
%assign vector 0
%rep 256
    dq trap_stub_%+vector
%assign vector vector + 1
%endrep
