"""Waits of tests for what another thread, process or machine does."""
import time

PATIENCE_S = 60         # for immediate events, on a machine that may stall for seconds


def wait_for(condition, what="the condition is true", seconds=PATIENCE_S, pause_s=0.01):
    """Waits until the condition is true, which `what` says in words."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        time.sleep(pause_s)
