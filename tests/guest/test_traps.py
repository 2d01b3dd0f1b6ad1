"""Programs that must trap. test.trap=WORD makes the kernel fail in a known function. The kernel must report the failure
(cause, registers, code, callers by name), and QMP must report the machine's reset."""
import re

import pytest
from workshop.vm import qemu

# word: a regular expression for the log; functions that the backtrace must name, innermost first.
TRAPS = {
    "divide": (r"trap: divide error \(0\)", ["trap_divide", "selftest_trap"]),
    "null": (r"trap: page fault \(14\).*\n.*cannot read 0x0: no page is there\n.*page zero: a NULL pointer",
             ["trap_null", "selftest_trap"]),
    "text": (r"cannot write 0x1[0-9a-f]{6}: its page forbids it", ["trap_text", "selftest_trap"]),
    "rodata": (r"cannot write 0x1[0-9a-f]{6}: its page forbids it", ["trap_rodata", "selftest_trap"]),
    "execute": (r"cannot execute 0x1[0-9a-f]{6}: its page forbids it", [r"\?", "trap_execute", "selftest_trap"]),
    "execute-stack": (r"cannot execute 0x1[0-9a-f]{6}: its page forbids it",
                      [r"\?", "trap_execute_stack", "selftest_trap"]),
    "stack": (r"stack overflow: 0x[0-9a-f]+ is in the guard page of the main stack",
              [r"trap_stack_deeper\S*", r"trap_stack_deeper\S*", "trap_stack", "selftest_trap"]),
    "opcode": (r"trap: invalid opcode \(6\)", ["trap_opcode", "selftest_trap"]),
    "double": (r"trap: double fault \(8\)", ["trap_null", "trap_double", "selftest_trap"]),
    "chain": (r"the chain is lost at 0x123456789abcdef0", ["trap_chain"]),
}


def machine(word):
    # Without a screen, because the kernel shows the dump there for some seconds.
    return qemu.Machine(qemu.kernel(f"test.trap={word}") + ["-vga", "none"], memory="128M")


def backtrace(log):
    return re.findall(r"^\[.*?\]   #\d+ 0x[0-9a-f]+ (\S+?)(?:\+0x[0-9a-f]+)?$", log, re.MULTILINE)


def check_dump(log, pattern, functions):
    assert re.search(pattern, log), log
    for register in ("rax", "r15", "rip", "rflags", "cr2", "cr3"):
        assert re.search(rf"\b{register} +[0-9a-f]{{2,16}}\b", log), f"{register} is missing\n{log}"
    assert re.search(r"\] +code( (<?[0-9a-f]{2}>?|<?--?>?)){32}$", log, re.MULTILINE), log
    names = backtrace(log)
    assert len(names) >= len(functions), log
    for name, function in zip(names, functions):
        assert re.fullmatch(function, name), f"{name} where {function} should be\n{log}"
    assert log.count("back to Linux: ") == 1, log


@pytest.mark.parametrize("word", TRAPS)
def test_trap_is_dumped_and_resets(word):
    with machine(word) as guest:
        guest.wait_reset()
    check_dump(guest.log, *TRAPS[word])
    if word != "chain":
        assert backtrace(guest.log)[-1] == "enter_64", f"the backtrace does not reach the start\n{guest.log}"


def test_backtrace_of_a_worker_reaches_its_start():
    options = qemu.kernel("cpus=4 test.trap=worker-null") + ["-vga", "none"]
    with qemu.Machine(options, memory="128M", cpus=4) as guest:
        guest.wait_reset()
    check_dump(guest.log, r"worker 3, APIC id 3: page fault", ["trap_null", "worker_null", "worker_main", "worker_64"])
    assert "the chain" not in guest.log, guest.log


def test_nmi_is_dumped_and_resets():
    with machine("wait") as guest:
        guest.wait_for("waiting for the host")
        guest.inject_nmi()
        guest.wait_reset()
    check_dump(guest.log, r"trap: NMI \(2\)", [])
    assert "trap_wait" in backtrace(guest.log), guest.log


def test_machine_check_is_dumped_and_resets():
    with machine("wait") as guest:
        guest.wait_for("waiting for the host")
        # cpu 0, bank 1; VAL, UC, EN, PCC; then the global status MCIP
        guest.qmp("human-monitor-command", **{"command-line": "mce 0 1 0xb200000000000000 0x4 0 0"})
        guest.wait_reset()
    check_dump(guest.log, r"trap: machine check \(18\)", [])
    assert "trap_wait" in backtrace(guest.log), guest.log


def test_trap_inside_a_trap_is_reported_and_resets():
    with machine("nested") as guest:
        guest.wait_reset()
    assert re.search(r"trap: invalid opcode \(6\)", guest.log), guest.log
    assert re.search(r"trap: divide error at 0x[0-9a-f]+ while handling a trap", guest.log), guest.log


@pytest.mark.parametrize("word, message, function", [
    ("assert", r"panic: kernel/rescue/selftest\.c:\d+: assertion failed: one == 2", "trap_assert"),
    ("panic", r"panic: test\.trap=panic", "trap_panic"),
    ("sealed", r"panic: memory is sealed, but test\.trap=sealed wants 1 bytes", "trap_sealed"),
])
def test_failed_assertion_is_reported_and_resets(word, message, function):
    with machine(word) as guest:
        guest.wait_reset()
    assert re.search(message, guest.log), guest.log
    assert function in backtrace(guest.log), guest.log
    assert re.search(r"back to Linux: panic", guest.log), guest.log


def test_unknown_trap_word_is_refused():
    with machine("nonsense") as guest:
        guest.wait_reset()
    assert re.search(r"test\.trap=nonsense: there is no such trap", guest.log), guest.log
