"""log=IP:PORT: the whole log arrives, in order, up to the cause of the end, over either stack."""
import datetime
import re
import time

from tests.guest import recorded_run
import pytest

from workshop.vm import machine
from tests.guest.syslog_receiver import Receiver, time_of

GAME = "feed=10.0.2.2:1 submit=10.0.2.2:2 user=u passwd=p n=6 m=3"
NIC = ["-netdev", "user,id=n", "-device", "virtio-net-pci,netdev=n"]


def run(words, scenario=None, stack=""):
    with Receiver() as receiver:
        log, records = recorded_run.run(f"{GAME} {words} log=10.0.2.2:{receiver.port}", NIC, scenario,
                                        machine.image_of(stack))
    assert not receiver.refused, receiver.refused[:3]
    return log, records, receiver


def console_texts(log):
    return [re.sub(r"^\[ *\d+\.\d+\] ", "", line) for line in log.splitlines()]


@pytest.mark.parametrize("stack", ["lwip", "own"])
def test_whole_log_arrives_in_order_to_the_cause(stack):
    log, _, receiver = run("deadline=2", stack=stack)
    assert receiver.texts == console_texts(log)
    assert receiver.texts[-1] == "back to Linux: deadline"
    assert [int(m["sequence"]) for m in receiver.messages] == list(range(1, len(receiver.messages) + 1))
    assert {(m["host"], m["app"]) for m in receiver.messages} == {("10.0.2.15", "peregrine")}
    late = datetime.datetime.now(datetime.timezone.utc) - time_of(receiver.messages[-1])
    assert abs(late.total_seconds()) < 5, late
    times = [time_of(m) for m in receiver.messages]
    assert times == sorted(times) and (times[-1] - times[0]).total_seconds() >= 1.9


def test_trap_arrives_with_registers_and_cause():
    def nmi(guest):
        guest.wait_for("input stream 1 .* refused")
        guest.inject_nmi()
    _, records, receiver = run("", nmi)
    assert records[0].cause == "NMI"
    assert receiver.texts[-1] == "back to Linux: NMI"
    trap = next(m for m in receiver.messages if m["text"].startswith("trap: NMI (2)"))
    assert trap["priority"] == "130"
    assert any(re.match(r" +rax [0-9a-f]{16}", text) for text in receiver.texts), receiver.texts


def test_a_missing_receiver_delays_nothing():
    begun = time.monotonic()
    log, records = recorded_run.run(f"{GAME} net.timeout=1 log=10.9.9.9:514",
                                    ["-netdev", "hubport,id=n,hubid=0", *NIC[2:]])
    assert records[0].cause == "network lost" and time.monotonic() - begun < 15, log
