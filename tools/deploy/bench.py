"""peregrine bench: a load of requests over UDP, TCP or HTTP, and how long the answers took. load.c makes it."""
import bisect
import collections
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys

from command_line import BUILD, INSTALLED, ROOT

HERE = pathlib.Path(__file__).resolve().parent
LOAD = HERE.parent / "images/host/load" if INSTALLED else BUILD / "host/tools/deploy/load"
QUANTILES = (50, 90, 99, 99.9, 99.99)
BAR = 50                    # columns of the histogram's longest bar
USAGE = 2
REQUEST_BYTES_MAX = 1 << 20     # load.c's
DATAGRAM_BYTES_MAX = 65507      # over IPv4
NUMBER_BYTES_MAX = 8            # load.c's


def request_of(options):
    """Returns the bytes of one request, and how many at its end are the number of the request. ValueError names the
    word that makes none."""
    number_bytes = 0
    word = ("" if options.protocol == "http" else "random:64") if options.payload is None else options.payload
    if word.startswith("@"):
        try:
            with open(word[1:], "rb") as file:
                payload = file.read(REQUEST_BYTES_MAX + 1)
        except OSError as error:
            raise ValueError(f"--payload {word}: {error.strerror}") from None
    elif word.startswith("random:"):
        count = word.removeprefix("random:")
        if not count.isdecimal() or not 1 <= int(count) <= 1 << 20:
            raise ValueError(f"--payload {word}: '{count}' is no number of bytes, 1 to 1048576")
        payload = os.urandom(int(count))
        number_bytes = min(int(count), NUMBER_BYTES_MAX)
    else:
        try:
            payload = os.fsencode(word).decode("unicode_escape").encode("latin-1")
        except UnicodeError:
            raise ValueError(f"--payload '{word}': a \\ begins \\r, \\n, \\xNN or \\\\") from None
    if options.protocol != "http":
        if not payload:
            raise ValueError("--payload: an empty request has no answer")
        if options.protocol == "udp" and len(payload) > DATAGRAM_BYTES_MAX:
            raise ValueError(f"--payload '{word:.60}': a datagram has {DATAGRAM_BYTES_MAX} bytes at most")
        return payload, number_bytes
    method = options.method if options.method is not None else "POST" if payload else "GET"
    if not re.fullmatch(r"[!#-'*+.^-z|~0-9A-Z-]+", method):         # RFC 9110 §5.6.2
        raise ValueError(f"--method '{method}': no method of HTTP")
    if not re.fullmatch(r"/[!-~]*|\*", options.path):
        raise ValueError(f"--path '{options.path}': begins with no /, or has more than ASCII without spaces")
    if method == "HEAD":
        raise ValueError("--method HEAD: the end of its answers is not known, for they have a length and no body")
    head = f"{method} {options.path} HTTP/1.1\r\nHost: {options.to[0]}:{options.to[1]}\r\n"
    head += f"Content-Length: {len(payload)}\r\n" if payload or method not in ("GET", "DELETE", "OPTIONS") else ""
    return (head + "\r\n").encode() + payload, number_bytes


def resolved(host):
    try:
        return socket.getaddrinfo(host, None, socket.AF_INET)[0][4][0]
    except (OSError, UnicodeError) as error:
        raise ValueError(f"{host}: {getattr(error, 'strerror', None) or error}") from None


def measure(options):
    """Plays the load. Returns the result as values for JSON; None if the load has said why there is none."""
    request, number_bytes = request_of(options)
    if len(request) > REQUEST_BYTES_MAX:
        raise ValueError(f"a request of {len(request)} bytes is longer than {REQUEST_BYTES_MAX}")
    words = [options.protocol, resolved(options.to[0]), options.to[1], options.connections, options.rate,
             options.warmup, options.duration, options.answer_bytes or len(request), number_bytes]
    try:
        process = subprocess.Popen([LOAD, *map(str, words)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    except FileNotFoundError:
        raise ValueError(f"{LOAD} is not there; build it with `make -C {ROOT} {LOAD.relative_to(ROOT)}`") from None
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)      # the load ends, and says what there was until then
    try:
        output, _ = process.communicate(request)
    finally:
        signal.signal(signal.SIGINT, before)
    if process.returncode:
        return None
    asked = {"protocol": options.protocol, "to": "{}:{}".format(*options.to), "connections": options.connections,
             "rate": options.rate, "request_bytes": len(request)}
    return {**asked, **json.loads(output)}


def quantile_ns(result, percent):
    """Returns the smallest bound that this share of the answers, in percent, does not exceed."""
    need, seen = result["answered"] * percent / 100, 0
    for bound, count in result["buckets"]:
        seen += count
        if seen >= need:
            return min(bound, result["max_ns"])
    return 0


def summary(result):
    """Returns (name, value) rows."""
    return [("answers a second", result["answered"] / result["seconds"] if result["seconds"] else 0),
            ("mean us", result["mean_ns"] / 1e3),
            *((f"p{percent:g} us", quantile_ns(result, percent) / 1e3) for percent in QUANTILES),
            ("max us", result["max_ns"] / 1e3), ("answered", result["answered"]), ("lost", result["lost"]),
            ("failed", result["failed"]), ("not 2xx", result["bad_status"]), ("not sent in time", result["waiting"])]


def shown(value):
    return f"{value:,}" if isinstance(value, int) else f"{value:,.1f}"


def bars(result):
    """Returns the histogram as lines; a row begins at 1, 2 or 5 times a power of ten ns."""
    steps = [step * 10 ** power for power in range(13) for step in (1, 2, 5)]
    rows = collections.Counter()
    for bound, count in result["buckets"]:
        rows[steps[bisect.bisect_right(steps, bound) - 1] if bound else 0] += count
    most = max(rows.values(), default=1)
    return [f"{shown(low / 1e3):>12} us  {100 * count / result['answered']:6.2f} %  {'#' * -(-BAR * count // most)}"
            for low, count in sorted(rows.items())]


def show(result):
    rate = f"{result['rate']:,g} a second" if result["rate"] else "as fast as answers come"
    print(f"{result['protocol']} to {result['to']}: {result['connections']} connections, "
          f"{result['request_bytes']} bytes, "
          f"{rate}, {result['seconds']:g} s")
    for name, value in summary(result):
        if value or name in ("answered", "lost"):
            print(f"  {name:18}{shown(value):>14}")
    if result["waiting"]:
        print(f"  The rate was not held: {result['waiting']:,} requests that were due had not left at the end.")
    if result["kernel_stamped"] < result["answered"]:
        print(f"  {result['answered'] - result['kernel_stamped']:,} answers had no stamp of the kernel.")
    if result["failed"]:
        print(f"  The last error: {result['error']}.")
    for line in bars(result):
        print(line)


def load_result(path):
    try:
        result = json.loads(pathlib.Path(path).read_text())
        summary(result)
        return result
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ValueError(f"{path} was not written by `peregrine bench --json`") from None


def compare(paths):
    results = [load_result(path) for path in paths]
    print(f"{'':18}" + "".join(f"{pathlib.Path(path).name:>22}" for path in paths) + f"{'second / first':>16}")
    for (name, value), (_, other) in zip(*map(summary, results)):
        if value or other:
            ratio = f"{other / value:.2f}" if value else "-"
            print(f"{name:18}{shown(value):>22}{shown(other):>22}{ratio:>16}")


def run(options):
    """Returns the exit status: 0; 1 no connection, or nothing was answered; 2 usage."""
    try:
        if options.compare:
            compare(options.compare)
            return 0
        if not options.to:
            raise ValueError("PROTOCOL HOST:PORT or --compare A.json B.json is needed")
        if (result := measure(options)) is None:
            return 1
    except ValueError as error:
        print(f"peregrine bench: {error}", file=sys.stderr)
        return USAGE
    if options.json:
        print(json.dumps(result))
    else:
        show(result)
    return 0 if result["answered"] else 1
