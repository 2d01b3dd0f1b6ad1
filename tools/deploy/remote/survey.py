"""Measures a machine from inside, for `peregrine survey`. Prints one JSON object, writes nothing. Python 3.6 or later.

    python3 - ROOT ADDRESS PORT CONNECTS SECONDS

ROOT is empty, or a directory that stands for / in the tests."""
import glob
import json
import os
import resource
import socket
import struct
import sys
import time

TCP_INFO_MIN_RTT = 148          # offset of tcpi_min_rtt (us) in struct tcp_info, linux/tcp.h: the kernel's own stamps
CONNECT_S_MAX = 2.0
CONNECT_PAUSE_S = 0.01
GAPS_KEPT = 10
GAP_NS_MIN = 5000               # shorter ones are the loop's own


def read(path):
    try:
        with open(ROOT + path, encoding="ascii", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def connect_us(address, port):
    """Returns the time from SYN to SYN-ACK by the kernel's stamps, in us; by our clock where the kernel gives none."""
    with socket.socket() as sock:
        sock.settimeout(CONNECT_S_MAX)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))      # leaves no TIME-WAIT
        began = time.perf_counter()
        sock.connect((address, port))
        took_us = (time.perf_counter() - began) * 1e6
        info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    if len(info) >= TCP_INFO_MIN_RTT + 4:
        min_rtt_us = struct.unpack_from("I", info, TCP_INFO_MIN_RTT)[0]
        if 0 < min_rtt_us < 0xffffffff:
            return min_rtt_us
    return round(took_us)


def connects(address, port, count):
    """Returns the times of the connections that came about, and why the others did not."""
    times, failures = [], {}
    for _ in range(count):
        try:
            times.append(connect_us(address, port))
        except OSError as error:
            reason = error.strerror or str(error) or type(error).__name__
            failures[reason] = failures.get(reason, 0) + 1
            if not times and sum(failures.values()) >= 3:
                break               # nobody is there
        time.sleep(CONNECT_PAUSE_S)
    return {"us": times, "failures": failures}


def cpu_ticks():
    words = read("/proc/stat").split("\n", 1)[0].split()[1:]
    ticks = [int(word) for word in words]
    return sum(ticks[:8]), ticks[7] if len(ticks) > 7 else 0


def jitter(seconds):
    """Spins on one CPU for so long; returns the longest gaps between two readings of the clock."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    ticks, steal = cpu_ticks() if read("/proc/stat") else (0, 0)
    switches = resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw
    now = time.perf_counter_ns if hasattr(time, "perf_counter_ns") else lambda: int(time.perf_counter() * 1e9)
    gaps, readings, before = [], 0, now()
    end = before + int(seconds * 1e9)
    while before < end:
        at = now()
        if at - before > GAP_NS_MIN:
            gaps.append(at - before)
        before = at
        readings += 1
    gaps.sort(reverse=True)
    ticks_after, steal_after = cpu_ticks() if ticks else (0, 0)
    return {"seconds": seconds, "reading_ns": round(seconds * 1e9 / max(readings, 1), 1),
            "longest_us": [round(gap / 1000, 1) for gap in gaps[:GAPS_KEPT]],
            "gaps_above_us": {str(limit): sum(gap > limit * 1000 for gap in gaps) for limit in (10, 100, 1000)},
            "steal_percent": round(100 * (steal_after - steal) / max(ticks_after - ticks, 1), 2),
            "switches": resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw - switches}


def siblings():
    """Returns the CPUs that share a core, one list each: "0,1"."""
    paths = glob.glob(ROOT + "/sys/devices/system/cpu/cpu[0-9]*/topology/thread_siblings_list")
    return sorted({read(path[len(ROOT):]).strip() for path in paths} - {""})


def main():
    address, port, count, seconds = sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5])
    found = {"connect": connects(address, port, count), "siblings": siblings(),
             "load": float((read("/proc/loadavg").split() or ["0"])[0]), "python": sys.version.split()[0]}
    found["jitter"] = jitter(seconds)
    print(json.dumps(found))


ROOT = sys.argv[1]
main()
