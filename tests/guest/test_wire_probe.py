"""tools/probe/: the kernel over the probe's device behind vhost-user, timed from descriptor to descriptor.

The device shares no code with QEMU's or with tests/lib/virtio_model.c, so the driver meets one more implementation."""
import pytest

from probe import vhost

# name: the program; the stack; the NIC in QEMU, and its properties
ROWS = {
    "modern": ("player", "own", "modern", ""),
    "legacy": ("player", "own", "legacy", ""),
    "legacy-plain": ("player", "own", "legacy", ",mrg_rxbuf=off,event_idx=off,csum=off,guest_csum=off"),
    "modern-without-event-index": ("echo", "own", "modern", ",event_idx=off"),
    "modern-without-mergeable-buffers": ("echo", "own", "modern", ",mrg_rxbuf=off"),
    "modern-lwip": ("player", "lwip", "modern", ""),
}
SHOTS = 20


@pytest.mark.parametrize("row", ROWS)
def test_every_request_of_the_probe_is_answered(row):
    program, stack, nic, more = ROWS[row]
    times = vhost.visit(vhost.SYSTEMS[stack], program, SHOTS, (1,), seed=row, nic=nic, nic_more=more)
    assert set(times) == {(play, 1) for play in vhost.PLAYS[program]}
    assert all(len(values) == SHOTS and min(values) > 0 for values in times.values()), times
