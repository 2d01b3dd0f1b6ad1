"""The order of a run of the tests, its lines of progress, and its last line: `N passed, N failed`."""
import os
import pathlib
import signal
import sys
import threading
import time

import pytest

from tests.lib import unchanged

# Programs that tests start as processes of their own import by the same roots as pytest (pyproject.toml).
ROOT = pathlib.Path(__file__).resolve().parents[1]
os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), str(ROOT / "tools")])

# Tests see the PATH of an ordinary user, whoever runs them: a Debian's leaves the folders of administration out.
os.environ["PATH"] = os.pathsep.join(p for p in os.environ["PATH"].split(os.pathsep) if pathlib.Path(p).name != "sbin")

# A job in the background of a shell's script ignores SIGINT, and its children inherit that. Tests send this signal.
signal.signal(signal.SIGINT, signal.default_int_handler)

REASON_CHARS_MAX = 4000         # the longest reason of a failure that the end repeats
LINE_CHARS_MAX = 200            # that of a failure when it happens
PROGRESS_S = float(os.environ.get("PROGRESS_S", 10))    # between two lines of progress
RUNNING_SHOWN_MAX = 4   # tests that a line of progress names

# These start first, in this order, since a single test of theirs takes minutes; the last ones are the quickest.
LONG_FIRST = ("roundtrip", "fuzz", "sim", "flood", "linux", "transport", "e2e", "guest")
QUICK_LAST = ("structure", "wire")

# Machines, servers and browsers in these folders depend on real time, and share the host with other tests and guests. A
# failed test of these folders runs once more, and the closing lines name the test.
BY_THE_CLOCK = ("balance", "contest", "deploy", "e2e", "exchange", "guest", "hosted", "linux", "roundtrip", "soak",
                "transport", "web")


def pytest_addoption(parser):
    parser.addoption("--changed", action="store_true", help="leave out tests that passed before with the same inputs")


def folder_of(item):
    return item.nodeid.split("/")[1] if item.nodeid.startswith("tests/") else ""


def rank(item):
    folder = folder_of(item)
    if folder in LONG_FIRST:
        return LONG_FIRST.index(folder)
    return len(LONG_FIRST) + 1 + (folder in QUICK_LAST)


def pytest_collection_modifyitems(config, items):
    """Puts the longest tests first, so that two workers (--dist loadgroup) end at about the same time."""
    items.sort(key=rank)
    for item in items:
        if folder_of(item) in BY_THE_CLOCK:
            item.add_marker(pytest.mark.flaky(reruns=1))
    items[:], left_out = unchanged.split(items, unchanged.read_passed() if config.getoption("--changed") else {})
    config.hook.pytest_deselected(items=left_out)
    config._left_out = len(left_out)
    if hasattr(config, "workeroutput"):
        config.workeroutput["left_out"] = len(left_out)


def reason_of(report):
    crash = getattr(report.longrepr, "reprcrash", None)
    return crash.message if crash else report.longreprtext


class Progress:
    """Prints each PROGRESS_S seconds how many tests are done and which ones run, and a failed test when it fails."""

    def __init__(self, config):
        self.plugins = config.pluginmanager
        self.output = os.dup(sys.stdout.fileno())
        self.running = {}       # the test: when it began
        self.begin = self.said = time.monotonic()
        self.done, self.total, self.left_out, self.passed = set(), 0, None, {}
        self.over = threading.Event()

    def pytest_xdist_node_collection_finished(self, ids):
        self.total = len(ids)

    def pytest_collection_finish(self, session):
        self.total = len(session.items)
        self.left_out = getattr(session.config, "_left_out", 0)

    def pytest_testnodedown(self, node):
        self.left_out = getattr(node, "workeroutput", {}).get("left_out", 0)

    def pytest_runtest_logstart(self, nodeid):
        self.running[nodeid] = time.monotonic()

    def pytest_runtest_logfinish(self, nodeid):
        self.running.pop(nodeid, None)

    def pytest_runtest_logreport(self, report):
        if report.when == "teardown":
            self.done.add(report.nodeid)
        if report.failed or report.outcome == "rerun":
            lines = reason_of(report).splitlines() or [""]
            self.write(f"{'FAILED' if report.failed else 'failed, once more'}: {report.nodeid}: "
                       f"{lines[0][:LINE_CHARS_MAX]}")
        digest = dict(report.user_properties).get("inputs")
        if digest and report.when == "call" and report.passed:
            self.passed[unchanged.name_of(report.nodeid)] = digest

    def write(self, text):
        """Prints a line, below the letters of the tests that are done; also while pytest captures a test's output."""
        writer = self.plugins.get_plugin("terminalreporter")._tw
        after_letters = "\n" if writer.width_of_current_line else ""
        writer._current_line = ""
        os.write(self.output, f"{after_letters}{text}\n".encode())

    def say(self):
        now = time.monotonic()
        minutes, seconds = divmod(round(now - self.begin), 60)
        longest = sorted(self.running.copy().items(), key=lambda item: item[1])[:RUNNING_SHOWN_MAX]
        running = ", ".join(f"{name.removeprefix('tests/')} ({now - begin:.0f} s)" for name, begin in longest)
        self.write(f"check: {len(self.done)} of {self.total} tests, {minutes} min {seconds:02} s: {running}")

    def run(self):
        while not self.over.wait(PROGRESS_S):
            self.say()

    def pytest_sessionstart(self):
        threading.Thread(target=self.run, daemon=True).start()

    def pytest_sessionfinish(self):
        self.over.set()
        if self.passed:
            unchanged.write_passed({**unchanged.read_passed(), **self.passed})


def pytest_configure(config):
    if not hasattr(config, "workerinput"):
        config._progress = Progress(config)
        config.pluginmanager.register(config._progress)


@pytest.hookimpl(tryfirst=True)
def pytest_report_teststatus(report):
    """Prints no dot for a test that passed, if there are lines of progress."""
    if report.passed and report.when == "call" and not sys.stdout.isatty():
        return "passed", "", "PASSED"
    return None


def fault_table(reports):
    """Returns the rows of tests/guest/test_faults.py: each fault, and the cause in its crash record."""
    rows = []
    for report in reports:
        fault = dict(report.user_properties).get("fault")
        if fault and report.when == "call":
            name, cause, seconds = fault
            rows.append(f"  {name:28} {'reset, record: ' + cause if report.passed else 'FAILED':60} {seconds:5.1f} s")
    return rows


def write_second_tries(terminalreporter):
    """Prints the tests that failed first and then passed, and the reasons of the failures."""
    stats = terminalreporter.stats
    failed = {report.nodeid for kind in ("failed", "error") for report in stats.get(kind, [])}
    passed_then = {report.nodeid: report for report in stats.get("rerun", []) if report.nodeid not in failed}
    if not passed_then:
        return
    terminalreporter.section("passed on the second try")
    for name, report in passed_then.items():
        terminalreporter.write_line(f"{name}\n{reason_of(report)[:REASON_CHARS_MAX]}\n")


def pytest_terminal_summary(terminalreporter):
    write_second_tries(terminalreporter)
    rows = fault_table(r for kind in ("passed", "failed") for r in terminalreporter.stats.get(kind, []))
    if rows:
        terminalreporter.section("fault table")
        terminalreporter.write_line("\n".join(sorted(rows)))
    kvm = unchanged.BUILD / "kvm-finding"       # written by tests/e2e/test_kvm.py
    if kvm.exists():
        terminalreporter.write_line(f"KVM: {kvm.read_text().strip()}")
    if left_out := terminalreporter.config._progress.left_out:
        terminalreporter.write_line(f"{left_out} more passed before with the same inputs (ALL=1 plays them, too)")
    stats = terminalreporter.stats
    count = {kind: len(stats.get(kind, [])) for kind in ("passed", "failed", "error", "skipped")}
    terminalreporter.config._closing = f"{count['passed']} passed, {count['failed'] + count['error']} failed"


def pytest_unconfigure(config):
    closing = getattr(config, "_closing", None)
    if closing:
        print(closing)
