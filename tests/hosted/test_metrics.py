"""/metrics of each program on Linux, by Prometheus' own linter, with symbols whose names no metric may have.

Dashboards read the names: families.txt has a line for each, with the programs. Add a line with a counter."""
import contextlib
import pathlib
import re
import subprocess
import time
import urllib.request

import pytest

from tests.e2e.test_page import check_by_promtool
from tests.lib.paths import BUILD
from workshop.vm import ports

HOST = BUILD / "host"
FAMILIES = pathlib.Path(__file__).with_name("families.txt").read_text().splitlines()
NOBODY, PATIENCE_S = "127.0.0.1:1", 30
PROGRAMS = {
    "peregrine": f"feed={NOBODY} submit={NOBODY} user=u passwd=p n=256 m=823 server.timeout=0",
    "echo": "port={port}",
    "time": "port={port}",
    "digest": "port={port} agent.port={agent}",
    "trade": "symbols=BRK.A,BRK-A,BRKA,ABC+,ABC=,AB#,AB$,A,a,Q\",B\\,{{}} feed.a=0.0.0.0:{port} "
             f"orders={NOBODY} user=u passwd=p",
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_promtool_finds_nothing(program):
    http = ports.free_port()
    words = PROGRAMS[program].format(port=ports.free_port(ports.UDP), agent=ports.free_port()).split()
    with subprocess.Popen([HOST / f"{program}-linux", f"http.port={http}", "deadline=60", *words],
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        try:
            deadline, text = time.monotonic() + PATIENCE_S, None
            while text is None and time.monotonic() < deadline and process.poll() is None:
                with contextlib.suppress(OSError):
                    text = urllib.request.urlopen(f"http://127.0.0.1:{http}/metrics", timeout=PATIENCE_S).read().decode()
                time.sleep(0.05)
            assert text, process.stderr.read()
        finally:
            process.kill()
    check_by_promtool(text)
    listed = {(name, kind) for name, kind, *programs in map(str.split, FAMILIES) if program in programs}
    assert set(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE)) ^ listed == set()
    assert ("peregrine_answers_total" in text) == (program == "peregrine")
    if program == "trade":
        assert 'peregrine_market_profit{symbol="BRK-A"} 0' in text and 'peregrine_market_bid{symbol="BRK.A"}' in text
