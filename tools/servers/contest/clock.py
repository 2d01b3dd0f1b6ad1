"""The contest's clock: CLOCK_MONOTONIC, shifted once at the start to the wall clock's time.

Steps of the wall clock do not move it. The board and the record show this clock; it differs from the wall clock by
the steps since the start. Knows no sockets.
"""
import time


class Clock:
    """`wall_ns` is CLOCK_REALTIME, by which the kernel stamps arrivals. A contest that goes on after a restart
    does not go back in time: `not_before_ns` is the latest time that it knows."""

    def __init__(self, wall_ns=time.time_ns, monotonic_ns=time.monotonic_ns, not_before_ns=0):
        self.wall_ns, self.monotonic_ns = wall_ns, monotonic_ns
        self.origin_ns = max(wall_ns(), not_before_ns) - monotonic_ns()
        # The wall clock's lead over this one. Slewing moves both: only a step changes the lead.
        self.ahead_ns = wall_ns() - self.now_ns() if not_before_ns else 0

    def now_ns(self):
        return self.monotonic_ns() + self.origin_ns

    def arrival_ns(self, stamp_ns, earliest_ns, latest_ns):
        """Returns when the segment arrived that the kernel stamped; call it right after the read.

        After a step between arrival and read, the stamp is useless, and the result is one of the caller's bounds."""
        assert earliest_ns <= latest_ns
        before_ns, wall_ns, after_ns = self.now_ns(), self.wall_ns(), self.now_ns()
        self.ahead_ns = min(max(self.ahead_ns, wall_ns - after_ns), wall_ns - before_ns)
        return min(max(stamp_ns - self.ahead_ns, earliest_ns), latest_ns)
