"""One thread's loop: sockets that are ready, and calls at their time. Knows no contest."""
import heapq
import itertools
import select
import time


class Loop:
    def __init__(self):
        self.poll = select.epoll()
        self.timers, self.timer_numbers = [], itertools.count()

    def after(self, wait_s, call):
        heapq.heappush(self.timers, (time.monotonic() + wait_s, next(self.timer_numbers), call))

    def wait(self, wait_s):
        """Returns the ready files with their events, after `wait_s` at most and not later than the next timer."""
        if self.timers:
            # epoll rounds up to milliseconds: the last part of one is spent in turns that do not wait.
            wait_s = min(wait_s, int(max(self.timers[0][0] - time.monotonic(), 0) * 1000) / 1000)
        return self.poll.poll(wait_s)

    def rest(self, rest_s):
        """Sleeps, but not beyond the next timer."""
        if self.timers:
            rest_s = min(rest_s, self.timers[0][0] - time.monotonic())
        time.sleep(max(rest_s, 0))

    def run_timers(self):
        while self.timers and self.timers[0][0] <= time.monotonic():
            heapq.heappop(self.timers)[2]()
