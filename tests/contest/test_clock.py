"""tools/servers/contest/clock.py with clocks that the test steps."""
import random

import pytest

from servers.contest.clock import Clock

SECOND_NS = 10**9


class Machine:
    """Two clocks; each reading takes 50 ns, sometimes a stall."""

    def __init__(self):
        self.now_ns, self.wall_ahead_ns = 1000 * SECOND_NS, 1_700_000_000 * SECOND_NS
        self.stall_ns = 0

    def monotonic_ns(self):
        self.now_ns += 50 + self.stall_ns
        return self.now_ns

    def wall_ns(self):
        return self.monotonic_ns() + self.wall_ahead_ns


@pytest.fixture
def machine():
    return Machine()


def arrive(machine, clock, step_ns=0):
    """Returns the error of a stamp whose segment lay 1 ms in its socket, while the wall clock stepped by `step_ns`."""
    earliest_ns = clock.now_ns()
    stamp_ns = machine.wall_ns()
    truth_ns = machine.now_ns + clock.origin_ns
    machine.now_ns += 1_000_000
    machine.wall_ahead_ns += step_ns
    return clock.arrival_ns(stamp_ns, earliest_ns, clock.now_ns()) - truth_ns


def test_starts_with_the_wall_clock_and_ignores_its_steps(machine):
    clock = Clock(machine.wall_ns, machine.monotonic_ns)
    assert abs(clock.now_ns() - machine.wall_ns()) < 1000
    machine.wall_ahead_ns -= 3600 * SECOND_NS
    before_ns = clock.now_ns()
    machine.wall_ahead_ns += 7200 * SECOND_NS
    assert 0 < clock.now_ns() - before_ns < 1000


@pytest.mark.parametrize("step_ns", [-3600 * SECOND_NS, -6 * SECOND_NS, -2_000_000, 2_000_000, 6 * SECOND_NS])
def test_stamps_are_right_before_and_after_a_step_and_bounded_across_it(machine, step_ns):
    clock = Clock(machine.wall_ns, machine.monotonic_ns)
    assert abs(arrive(machine, clock)) <= 200
    assert abs(arrive(machine, clock, step_ns)) <= 1_000_500
    assert abs(arrive(machine, clock)) <= 200


def test_a_stall_between_the_readings_is_no_step(machine):
    clock = Clock(machine.wall_ns, machine.monotonic_ns)
    random_source = random.Random(1)
    for _ in range(1000):
        machine.stall_ns = random_source.choice((0, 0, 10_000))
        earliest_ns, stamp_ns = clock.now_ns(), machine.wall_ns()
        truth_ns = machine.now_ns + clock.origin_ns
        assert abs(clock.arrival_ns(stamp_ns, earliest_ns, clock.now_ns()) - truth_ns) <= 200


def test_a_stall_at_the_start_is_made_good(machine):
    machine.stall_ns = 20_000_000
    clock = Clock(machine.wall_ns, machine.monotonic_ns)
    machine.stall_ns = 0
    arrive(machine, clock)
    assert abs(arrive(machine, clock)) <= 200
