#!/usr/bin/env python3
"""`peregrine bench` beside wrk: rate, mean and quantiles at a service that takes 40 ms, each fifth time 60 ms.

Three loads run at a time, so other work slows them alike: wrk, the closed loop, and the open loop at a rate that all
can hold. Prints the medians of TURNS. Exit status 1 if a figure is more than 5 %
from wrk's. Root gives loads and server a priority over all else here: wrk would count its waits for a CPU."""
import asyncio
import concurrent.futures
import itertools
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import threading
import time

from command_line import ROOT
from deploy.bench import summary
from tests.bench.bench_digest_cpus import take_priority

TURNS, SECONDS, WARM_UP_S, CONNECTIONS, RATE, APART_MAX = 5, 5, 1.5, 10, 150, 0.05
PATIENCE_S = 60
DONE = """
done = function(summary, latency)
    io.write(string.format('{"rate": %f, "mean": %f, "p50": %d, "p90": %d}\\n',
        summary.requests * 1e6 / summary.duration, latency.mean, latency:percentile(50), latency:percentile(90)))
end
"""


class Service(asyncio.Protocol):
    """A rarer and longer delay would count for more at wrk, which adds answers to one of twice the usual time."""
    requests = itertools.count(1)

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        assert data.endswith(b"\r\n\r\n")
        answer = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\npage"
        delay_s = 0.04 if next(self.requests) % 5 else 0.06
        asyncio.get_running_loop().call_later(delay_s, self.transport.write, answer)


def serve(loop):
    """Starts the service, and returns its IP:PORT."""
    server = loop.run_until_complete(loop.create_server(Service, "127.0.0.1", 0))
    threading.Thread(target=loop.run_forever, daemon=True).start()
    return "127.0.0.1:{}".format(server.sockets[0].getsockname()[1])


def of_wrk(to, script):
    words = ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{SECONDS}s", "-s", script, f"http://{to}/"]
    return json.loads(subprocess.check_output(words, timeout=PATIENCE_S).splitlines()[-1])


def ours(to, rate):
    words = [ROOT / "tools/peregrine", "bench", "http", to, "--connections", CONNECTIONS, "--duration", SECONDS,
             "--warmup", WARM_UP_S, "--rate", rate, "--json"]
    rows = dict(summary(json.loads(subprocess.check_output(map(str, words), timeout=PATIENCE_S))))
    return {"rate": rows["answers a second"], **{name: rows[f"{name} us"] for name in ("mean", "p50", "p90")}}


def turn(to, script):
    with concurrent.futures.ThreadPoolExecutor() as pool:
        loads = [pool.submit(ours, to, 0), pool.submit(ours, to, RATE)]
        # wrk has no warm-up: it would count the start of the others.
        time.sleep(WARM_UP_S)
        return [of_wrk(to, script), *(load.result() for load in loads)]


def main():
    take_priority()         # all that is started here has it, too
    to = serve(asyncio.new_event_loop())
    with tempfile.TemporaryDirectory() as folder:
        script = pathlib.Path(folder, "done.lua")
        script.write_text(DONE)
        turns = [turn(to, script) for _ in range(TURNS)]
    wrk, closed, opened = ({key: statistics.median(found[key] for found in side) for key in side[0]}
                           for side in zip(*turns))
    apart = 0
    print(f"{'':18}{'wrk':>12}{'bench':>12}{'ratio':>8}")
    for name, found, against in (("closed loop", closed, wrk), ("open loop", opened, {**wrk, "rate": RATE})):
        for key, value in against.items():
            unit = "/s" if key == "rate" else "us"
            print(f"{name:12}{key:4} {unit}{value:12.1f}{found[key]:12.1f}{found[key] / value:8.3f}")
            apart = max(apart, abs(found[key] / value - 1))
    return apart > APART_MAX


if __name__ == "__main__":
    sys.exit(main())
