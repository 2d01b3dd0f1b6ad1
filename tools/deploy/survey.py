"""peregrine survey: which of several machines to take. Reads and measures over ssh, changes nothing on them."""
import concurrent.futures
import json

from . import facts as f
from . import preflight
from .commands import OK, REMOTE, image_bytes, probe, say
from .ssh import SCRIPTS, RemoteError
from .text import number
from .verdict import STOP, WARN

CONNECTS = 200
VECTORS = (("avx2", "AVX2"), ("avx512f", "AVX-512"), ("sha_ni", "SHA"), ("vaes", "VAES"))


def quantile(ordered, share):
    """Returns the smallest value that at least this share of the values, in percent, does not exceed."""
    return ordered[max(0, -(-len(ordered) * share // 100) - 1)] if ordered else None


def survey_host(host, to, seconds, kernel, bzimage):
    """Returns all that is known of one machine, as JSON can hold it; "failed" says why nothing is."""
    try:
        facts = probe(host)
        program = (SCRIPTS / "survey.py").read_bytes()
        arguments = [to[0], str(to[1]), str(CONNECTS), f"{seconds:g}"]
        text = host.run(["survey"], arguments, program, timeout=seconds + 600).decode(errors="replace")
        measured = checked(json.loads(text))
    except RemoteError as error:
        return {"host": host.name, "failed": str(error)}
    except (ValueError, RecursionError):
        return {"host": host.name, "failed": f"{host.name}: the measurements arrived cut off or are none"}
    verdict = preflight.judge(facts, image_bytes=image_bytes(kernel, bzimage), kexec_bytes=image_bytes(bzimage),
                              linux_protocol=bzimage.exists())
    return {"host": host.name, **_machine(facts, measured), **_times(measured),
            "ways": verdict.ways,
            "stops": [] if verdict.ways else [finding.text for finding in verdict.findings if finding.level == STOP],
            "warnings": [found.text for found in verdict.findings if found.level == WARN]}


def checked(measured):
    """Returns the measurements if they have the form that remote/survey.py gives them. Raises ValueError."""
    def need(value, kind):
        if not isinstance(value, kind) or isinstance(value, bool) or isinstance(value, int) and abs(value) > 1e18:
            raise ValueError(f"{value!r} in the measurements")
        return value

    need(measured, dict)
    connect, jitter = measured.get("connect"), measured.get("jitter")
    if connect is not None:
        for us in need(need(connect, dict).get("us"), list):
            need(us, (int, float))
        for count in need(connect.get("failures"), dict).values():
            need(count, int)
    if jitter is not None:
        for gap in need(need(jitter, dict).get("longest_us"), list):
            need(gap, (int, float))
        for limit in ("10", "100", "1000"):
            need(need(jitter.get("gaps_above_us"), dict).get(limit), int)
        for key in ("seconds", "reading_ns", "steal_percent"):
            need(jitter.get(key), (int, float))
    for cpus in need(measured.get("siblings", []), list):
        need(cpus, str)
    need(measured.get("load"), (int, float, type(None)))
    need(measured.get("missing"), (str, type(None)))
    return measured


def _machine(facts, measured):
    words = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in facts.lines("processor"))}
    flags = set(words.get("flags", "").split())
    nic, siblings = f.nic(facts), measured.get("siblings", [])
    return {
        "system": facts.words("os-release").get("PRETTY_NAME", "unknown"), "kernel": facts.text("kernel"),
        "cloud": " ".join(filter(None, (facts.text("vendor"), facts.text("product")))) or "unnamed",
        "hypervisor": facts.text("virtualisation") or "unknown",
        "processor": words.get("model name", "unknown"), "cpus": number(facts.text("processors"), 0),
        "cores": len(siblings) or None, "siblings": siblings,
        "vectors": [name for flag, name in VECTORS if flag in flags],
        "tsc_khz": f.tsc_khz(facts) or None,
        "tsc_constant": "constant_tsc" in flags and not f.tsc_unstable(facts),
        "clocksource": facts.text("clocksource") or "unknown",
        "nic": nic and _nic(nic),
    }


def _nic(nic):
    return {**{key: getattr(nic, key) for key in ("name", "driver", "transport", "queues", "mtu")},
            "features": f.feature_names(nic.features) if nic.driver == "virtio_net" else []}


def _times(measured):
    connect = measured.get("connect") or {"us": [], "failures": {}}
    ordered = sorted(connect["us"])
    quantiles = {f"p{share}": quantile(ordered, share) for share in (10, 50, 99)}
    return {"connect_us": {**quantiles, "count": len(ordered)},
            "connect_failures": connect["failures"], "jitter": measured.get("jitter"),
            "load": measured.get("load"), "missing": measured.get("missing")}


def order_of(row):
    """Returns the key to rank by: the median way to the server, its 99th percentile, the longest gap of a thread."""
    connect, jitter = row.get("connect_us", {}), row.get("jitter") or {}
    infinite = float("inf")
    longest = (jitter.get("longest_us") or [0])[0] if jitter else infinite
    return ("failed" in row, bool(row.get("stops")), connect.get("p50") or infinite, connect.get("p99") or infinite,
            longest)


def survey(hosts, to, kernel, bzimage, *, seconds=10.0, as_json=False):
    """Surveys all hosts at once: each is a machine of its own."""
    if not as_json:
        say(f"measuring {', '.join(host.name for host in hosts)} for some {seconds + 5:.0f} s (nothing is changed)")
    with concurrent.futures.ThreadPoolExecutor(len(hosts)) as pool:
        rows = list(pool.map(lambda host: survey_host(host, to, seconds, kernel, bzimage), hosts))
    rows.sort(key=order_of)
    for rank, row in enumerate(rows, 1):
        row["rank"] = rank
    say(json.dumps(rows, indent=2) if as_json else "\n".join(text(rows, to)))
    return REMOTE if any("failed" in row for row in rows) else OK


def text(rows, to):
    """Returns the table of all machines, then what concerns each, as lines."""
    cells = [("rank", "host", "p10", "p50", "p99", "longest gap", "steal", "CPUs", "vectors", "bootable")]
    cells += [(str(row["rank"]), row["host"], *(["-"] * 8 if "failed" in row else _cells(row))) for row in rows]
    widths = [max(len(line[i]) for line in cells) for i in range(len(cells[0]))]
    lines = [f"TCP connect to {to[0]}:{to[1]} in us, p10, p50, p99 of {CONNECTS}; longest gap of a spinning thread"]
    lines += ["  ".join(f"{cell:{width}}" for cell, width in zip(line, widths)).rstrip() for line in cells]
    for row in rows:
        lines += ["", *_details(row)]
    return lines


def _cells(row):
    connect, jitter = row["connect_us"], row["jitter"] or {}
    return (*(_number(connect[key]) for key in ("p10", "p50", "p99")),
            _number((jitter.get("longest_us") or [None])[0], " us"), _number(jitter.get("steal_percent"), " %"),
            f"{row['cpus']} of {row['cores'] or '?'} core{'s' if row['cores'] != 1 else ''}",
            " ".join(row["vectors"]) or "none", " ".join(row["ways"]) or "no")


def _number(value, unit=""):
    return "-" if value is None else f"{value:g}{unit}"


def _details(row):
    if "failed" in row:
        return [f"{row['host']}: {row['failed'].removeprefix(row['host'] + ': ')}"]
    nic, jitter = row["nic"], row["jitter"]
    cores = " ".join(f"[{cpus}]" for cpus in row["siblings"]) or "unknown"
    tsc = f"TSC {row['tsc_khz'] or '?'} kHz{'' if row['tsc_constant'] else ', not constant'}"
    lines = [f"{row['host']}: {row['cloud']}, hypervisor {row['hypervisor']}, {row['system']}, Linux {row['kernel']}",
             f"  processor  {row['processor']}; cores {cores}; {tsc}; clock {row['clocksource']}"]
    if nic:
        features = ": " + " ".join(nic["features"]) if nic["features"] else ""
        lines.append(f"  NIC        {nic['name']}: {nic['driver'] or 'no driver'}, {nic['transport']}, "
                     f"{nic['queues']} queue(s), MTU {nic['mtu']}{features}")
    if jitter:
        above, longest = jitter["gaps_above_us"], ", ".join(f"{gap:g}" for gap in jitter["longest_us"][:5]) or "none"
        lines.append(f"  jitter     longest gaps {longest} us; above 10 us {above['10']}, above 100 us {above['100']}, "
                     f"above 1 ms {above['1000']} in {jitter['seconds']:g} s")
    for reason, count in row["connect_failures"].items():
        lines.append(f"  warning: {count} connections failed: {reason}")
    if row["load"] is not None and row["load"] > 0.5:
        lines.append(f"  warning: the machine was at work, load {row['load']:g}: its times are upper bounds")
    if row["missing"]:
        lines.append(f"  warning: {row['missing']}")
    lines += [f"  {STOP}: {what}" for what in row["stops"]]
    return lines + [f"  {WARN}: {what}" for what in row["warnings"]]
