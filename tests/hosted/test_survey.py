"""The survey over Linux sockets: build/host/survey-linux, with an echo of this test's."""
import contextlib
import re
import socket
import subprocess
import threading

from tests.lib.paths import BUILD

PROGRAM = BUILD / "host/survey-linux"
PATIENCE_S = 60


@contextlib.contextmanager
def udp_echo(address="127.0.0.1"):
    """Sends each datagram back, until the end of the block. Yields the port."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind((address, 0))

        def serve():
            with contextlib.suppress(OSError):
                while received := server.recvfrom(2048):
                    if not received[0]:
                        return
                    server.sendto(*received)
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield server.getsockname()[1]
        server.sendto(b"", server.getsockname())
        thread.join(PATIENCE_S)


def rows_of(statistics):
    """Returns {row: its fact} from the statistics, in their order."""
    return dict(re.findall(r"^(?:.*stats: )?survey\.(\w+) (\D.*)$", statistics.replace("\r", ""), re.MULTILINE))


def value(statistics, name):
    return int(re.search(rf"\b{re.escape(name)} (\d+)\r?$", statistics, re.MULTILINE)[1])


def check_rows(statistics, names):
    """Asserts that the rows named have plausible figures, and that all others give the reason."""
    rows = rows_of(statistics)
    assert set(names) < set(rows)
    for name, fact in rows.items():
        count, p50, p99, longest = (value(statistics, f"survey.{name}.{what}")
                                    for what in ("count", "p50_ns", "p99_ns", "max_ns"))
        if name in names:
            assert not fact.startswith("not measured") and count > 0, f"{name}: {fact}, {count} samples"
            assert p50 <= p99 <= longest < 60e9 and longest > 0, f"{name}: {p50} {p99} {longest}"
        else:
            assert fact.startswith("not measured: ") and count == 0, f"{name}: {fact}, {count} samples"
    return rows


def run(*words):
    done = subprocess.run([PROGRAM, "survey.seconds=2", *words], capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0 and "leaving: finished" in done.stderr, done.stderr
    return done.stdout


def usable_variants(statistics):
    return {f"matcher_{name}" for name in ("scalar", "avx2", "avx512")
            if not rows_of(statistics)[f"matcher_{name}"].startswith("not measured: the processor")}


def test_survey_ends_by_itself_and_measures_all_rows_that_linux_allows():
    with udp_echo() as port:
        statistics = run("--all", f"echo=127.0.0.1:{port}", "wait=sleep")
    variants = usable_variants(statistics)
    assert "matcher_scalar" in variants
    rows = check_rows(statistics, {"reading", "gap", "echo", "ring_to_ring", *variants})
    assert rows["exit"] == "not measured: a program on Linux cannot"
    assert value(statistics, "survey.echo_answered") > 10


def test_without_an_echo_the_round_trips_are_not_measured():
    statistics = run("--all")
    rows = check_rows(statistics, {"reading", "gap", *usable_variants(statistics)})
    assert {rows[name] for name in ("echo", "echo_asleep", "ring_to_ring")} == {"not measured: echo= is not given"}


def test_the_table_at_the_end_has_a_row_for_each_histogram_that_is_not_empty():
    facts, head, *rows = re.split(r"\n(?=\nmicro)|\n(?=survey\.\w+ +\d+ +\d)", run())
    assert head.split() == "microseconds count average p50 p99 max".split() and ".count" not in facts
    for row in rows:
        name, _, *times = row.split()
        average, p50, p99, longest = map(float, times)
        assert 0 <= p50 <= p99 <= longest and 0 < average <= longest and f"{name.partition('.')[2]} " in facts, row
    assert {"survey.reading", "survey.gap"} <= {row.split()[0] for row in rows}


def test_words_of_other_programs_are_unknown():
    done = subprocess.run([PROGRAM, "feed=1.2.3.4:5"], capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 2 and '"feed": there is no such key' in done.stderr
