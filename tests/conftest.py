"""Closes every run with one plain line, `N passed, N failed`, whatever the runner's own summary looks like."""


def pytest_terminal_summary(terminalreporter):
    stats = terminalreporter.stats
    count = {kind: len(stats.get(kind, [])) for kind in ("passed", "failed", "error", "skipped")}
    terminalreporter.config._peregrine_closing = (
        f"{count['passed']} passed, {count['failed'] + count['error']} failed"
        + (f", {count['skipped']} skipped" if count["skipped"] else "")
    )


def pytest_unconfigure(config):
    closing = getattr(config, "_peregrine_closing", None)
    if closing:
        print(closing)
