"""Closes every run with one plain line, `N passed, N failed`, whatever the runner's own summary looks like."""
import os
import pathlib


def fault_table(reports):
    """The rows of tests/guest/test_faults.py: what was done to the machine, and what its record told afterwards."""
    rows = []
    for report in reports:
        told = dict(report.user_properties).get("fault")
        if told and report.when == "call":
            name, cause, seconds = told
            rows.append(f"  {name:28} {'reset, record: ' + cause if report.passed else 'FAILED':60} {seconds:5.1f} s")
    return rows


def pytest_collection_modifyitems(items):
    """The order in which two workers end together. xdist (3.1, `load`) gives the first eighth of the tests to one of them, the
    next eighth to the other, then smaller and smaller pieces to whoever is through. So the first has the round
    trips, the other sim and fuzz, each of them minutes by itself; the quickest fill both up, and come last, too."""
    def of(*folders):
        return [item for item in items if any(f"{folder}/" in item.nodeid for folder in folders)]

    trips, long, quick = of("roundtrip"), of("sim", "fuzz"), of("structure", "wire")
    others = [item for item in items if item not in {*trips, *long, *quick}]
    first, second = (max(len(items) // 8 - len(part), 0) for part in (trips, long))
    items[:] = [*trips, *quick[:first], *long, *quick[first:first + second], *others, *quick[first + second:]]


def pytest_terminal_summary(terminalreporter):
    rows = fault_table(r for kind in ("passed", "failed") for r in terminalreporter.stats.get(kind, []))
    if rows:
        terminalreporter.section("fault table")
        terminalreporter.write_line("\n".join(sorted(rows)))
    kvm = pathlib.Path(os.environ.get("BUILD", "build")) / "kvm-finding"       # written by tests/e2e/test_kvm.py
    if kvm.exists():
        terminalreporter.write_line(f"KVM: {kvm.read_text().strip()}")
    stats = terminalreporter.stats
    count = {kind: len(stats.get(kind, [])) for kind in ("passed", "failed", "error", "skipped")}
    terminalreporter.config._peregrine_closing = (
        f"{count['passed']} passed, {count['failed'] + count['error']} failed")


def pytest_unconfigure(config):
    closing = getattr(config, "_peregrine_closing", None)
    if closing:
        print(closing)
