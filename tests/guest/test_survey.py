"""The survey as a kernel: each row is measured or gives the reason why not. The machine is reset at the end."""
from tests.hosted import test_survey
from workshop.vm import qemu

IMAGE = qemu.BUILD / "survey/peregrine.elf"
SECONDS = 3


def boot(*words, cpus=1, seconds=SECONDS):
    """Boots the survey beside an echo. Returns the statistics that the survey logs at its end."""
    with test_survey.udp_echo() as port:
        line = " ".join([f"survey.seconds={seconds}", "ip=10.0.2.15/24", "gw=10.0.2.2", *words]).format(port=port)
        devices = ["-vga", "none", "-netdev", "user,id=n", "-device", "virtio-net-pci,netdev=n", "-smp", str(cpus)]
        with qemu.Machine(qemu.kernel(line, image=IMAGE) + devices) as guest:
            guest.wait_reset()
    assert "back to Linux: finished" in guest.log, guest.log
    return guest.log


def test_machine_with_two_cpus_and_an_echo_is_measured_whole():
    for seconds in (SECONDS, 4 * SECONDS, 16 * SECONDS):    # a busy host may run only one of the CPUs
        log = boot("wait=sleep", "echo=10.0.2.2:{port}", cpus=2, seconds=seconds)
        if all(test_survey.value(log, f"survey.{name}.count") for name in ("line_transfer", "wake_msi")):
            break
    rows = test_survey.check_rows(log, {
        "reading", "exit", "port_write", "notification", "line_transfer", "wake_ipi", "gap", "matcher_scalar",
        "matcher_avx2", "matcher_beside", "echo", "echo_asleep", "wake_msi", "ring_to_ring"})
    assert rows["matcher_avx512"].startswith("not measured: the processor")
    assert test_survey.value(log, "virtio_net.tx_kicks") >= test_survey.value(log, "survey.notification.count")
    assert test_survey.value(log, "watchdog.checks") > 0     # the second CPU is the watchdog during the survey


def test_small_machine_reports_its_missing_parts():
    rows = test_survey.check_rows(boot(), {"reading", "exit", "port_write", "notification", "gap", "matcher_scalar",
                                          "matcher_avx2"})
    assert rows["line_transfer"] == rows["wake_ipi"] == "not measured: no second CPU is up"
    assert rows["echo"] == "not measured: echo= is not given"


def test_sleep_is_refused_if_the_settings_forbid_it():
    rows = test_survey.rows_of(boot("echo=10.0.2.2:{port}", "cpus=2", cpus=2))
    assert rows["echo_asleep"] == "not measured: wait=sleep is not set"
    assert rows["line_transfer"] == "not measured: cpus=2 gives the second CPU other work"
