"""share/monitoring: a Prometheus scrapes each program on Linux by it, and knows every series that it names."""
import contextlib
import importlib.util
import json
import pathlib
import re
import subprocess
import time
import urllib.parse
import urllib.request

import pytest

from tests.e2e.test_page import KERNEL_ALONE, promtool
from tests.hosted.test_metrics import HOST, PATIENCE_S, PROGRAMS
from tests.lib.paths import ROOT
from workshop.vm import ports

SHARE = ROOT / "share/monitoring"
DASHBOARDS = sorted((SHARE / "grafana").glob("*.json"))


def expressions(path):
    """Returns a dashboard's PromQL, for all machines."""
    return [target["expr"].replace("$instance", ".*") for panel in json.loads(path.read_text())["panels"]
            for target in panel["targets"]]


def series_named(text):
    """Returns the names of series in PromQL, without prefixes of patterns."""
    return {name.removesuffix("_bucket") for name in re.findall(r"\b(?:peregrine|contest)_\w+", text)
            if not name.endswith("_")}


def check(*words):
    done = subprocess.run([promtool(), *words], capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stdout + done.stderr


def test_dashboards_are_those_of_the_table(tmp_path):
    path = ROOT / "tools/workshop/make/dashboards.py"
    spec = importlib.util.spec_from_file_location("dashboards", path)
    dashboards = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(dashboards)
    dashboards.write(tmp_path)
    for made in tmp_path.glob("*.json"):
        assert made.read_text() == (SHARE / "grafana" / made.name).read_text(), f"run {path.relative_to(ROOT)}"
    assert len(DASHBOARDS) == len(list(tmp_path.glob("*.json"))) == len(PROGRAMS) + 1


def test_promtool_takes_configuration_and_alerts(tmp_path):
    check("check", "config", SHARE / "prometheus.yml")
    test = (pathlib.Path(__file__).parent / "alerts_test.yml").read_text()
    (tmp_path / "test.yml").write_text(test.replace("[alerts.yml]", f"[{SHARE}/alerts.yml]"))
    check("test", "rules", tmp_path / "test.yml")


@pytest.mark.slow
def test_prometheus_answers_every_panel(tmp_path):
    at, pages = ports.free_port(), {name: ports.free_port() for name in PROGRAMS}
    targets = ", ".join(f"'127.0.0.1:{port}'" for port in pages.values())
    text = (SHARE / "prometheus.yml").read_text().replace("'127.0.0.1:8080'", targets).replace(": 5s", ": 1s")
    (tmp_path / "prometheus.yml").write_text(text.replace("[alerts.yml]", f"[{SHARE}/alerts.yml]"))

    def ask(path, **query):
        with urllib.request.urlopen(f"http://127.0.0.1:{at}/api/v1/{path}?{urllib.parse.urlencode(query)}",
                                    timeout=PATIENCE_S) as response:
            return json.load(response)["data"]

    with contextlib.ExitStack() as stack:
        for name, port in pages.items():
            words = PROGRAMS[name].format(port=ports.free_port(ports.UDP), agent=ports.free_port()).split()
            stack.callback(subprocess.Popen([HOST / f"{name}-linux", f"http.port={port}", "deadline=120", *words],
                                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).kill)
        stack.callback(subprocess.Popen(
            [promtool("prometheus"), f"--config.file={tmp_path}/prometheus.yml",
             f"--storage.tsdb.path={tmp_path}/data", f"--web.listen-address=127.0.0.1:{at}"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).kill)
        deadline, up = time.monotonic() + PATIENCE_S, []
        while len(up) < len(pages) and time.monotonic() < deadline:
            time.sleep(0.1)
            with contextlib.suppress(OSError):
                up = ask("query", query='up{job="peregrine"} == 1')["result"]
        assert len(up) == len(pages), up
        known = {name.removesuffix("_bucket") for name in ask("label/__name__/values")}
        named = series_named((SHARE / "alerts.yml").read_text())
        for path in DASHBOARDS:
            for expression in expressions(path):
                ask("query", query=expression)      # an expression that Prometheus refuses is an HTTPError
                named |= series_named(expression)
        missing = {name for name in named if not name.startswith("contest_")} - known
        assert missing <= KERNEL_ALONE, missing
        assert ask("rules")["groups"][0]["rules"]
