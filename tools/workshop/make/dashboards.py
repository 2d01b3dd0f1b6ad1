#!/usr/bin/python3
"""Writes share/monitoring/grafana/NAME.json: Grafana's dashboards of the programs and of the contest.

    tools/workshop/make/dashboards.py [FOLDER]

One panel is one row here: title, unit, and (legend, PromQL) for each curve. `I` stands for the chosen instances.
Format: Grafana's dashboard model, schemaVersion 39 (Grafana 11).
"""
import json
import pathlib
import sys

FOLDER = pathlib.Path(__file__).resolve().parents[3] / "share/monitoring/grafana"
I = 'instance=~"$instance"'         # noqa: E741
HEIGHT, WIDTH = 8, 12               # a panel. The page has 24 columns
ALARM = " stopped"                  # ends the name of a curve that is red


def quantiles(stage):
    """Returns the curves of a latency's quantiles over the last minute."""
    buckets = f'sum by (instance, le) (rate(peregrine_latency_seconds_bucket{{{I},stage="{stage}"}}[1m]))'
    return [(f"{{{{instance}}}} p{100 * q:g}", f"histogram_quantile({q}, {buckets})") for q in (0.5, 0.99, 0.999)]


def reasons(prefix):
    """Returns a curve for each counter PREFIX_REASON_total that moves. A rate forgets the name: it becomes a label."""
    named = f'{{__name__=~"{prefix}_.*_total",{I}}}, "reason", "$1", "__name__", "{prefix}_(.*)_total"'
    return [("{{instance}} {{reason}}", f"rate(label_replace({named})[1m:5s]) > 0")]


def rate(legend, name, labels=""):
    return [(f"{{{{instance}}}} {legend}", f"rate({name}{{{I}{labels}}}[1m])")]


def level(legend, name):
    return [(f"{{{{instance}}}} {legend}", f"{name}{{{I}}}")]


PROGRAM = [
    ("Up", "short", [("{{instance}}", f"up{{{I}}}")]),
    ("Drops by reason", "cps", [("{{instance}} {{module}} {{reason}}", f"rate(peregrine_drops_total{{{I}}}[1m]) > 0")]),
    ("Watchdog: age of the loop's last sign of life", "s", level("", "peregrine_watchdog_age_seconds")
     + level("timeout", "peregrine_watchdog_timeout_seconds")),
    ("Rehearsals", "cps", rate("done", "peregrine_rehearsal_done_total")
     + reasons("peregrine_rehearsal_refused")),
    ("Time since the last rehearsal when an event came", "s", quantiles("rehearsal.age")),
    ("Longest turn of the loop", "s", level("", "peregrine_loop_turn_max_seconds")),
]
DASHBOARDS = {
    "player": [
        ("Burst seen to POST sent", "s", quantiles("answer.seen_to_kicked")),
        ("POST to response", "s", quantiles("submit.response")),
        ("Answers", "cps", rate("{{kind}}", "peregrine_answers_total")),
        ("What the server said to them", "cps", rate("{{result}}", "peregrine_results_total")),
        ("Digits", "cps", rate("", "peregrine_input_stream_digits_total")),
        ("Circuit breaker: 1 when nothing is submitted", "short", level("", "peregrine_circuit_breaker_open")),
        *PROGRAM],
    "trade": [
        ("Tick to order", "s", quantiles("trade.tick_to_order")),
        ("Holds orders back: all but stopped must be 1", "short",
         level("feed current", "peregrine_pool_trade_feed_current")
         + level("session ready", "peregrine_pool_trade_session_ready")
         + level("market open", "peregrine_pool_trade_market_open")
         + level("books whole", "peregrine_pool_book_whole") + level("orders sure", "peregrine_pool_orders_sure")
         + level("stopped", "peregrine_pool_trade_stopped")),
        ("Open orders", "short", level("", "peregrine_pool_orders_open")),
        ("Position", "short",
         [("{{instance}} {{symbol}}", f"peregrine_market_long{{{I}}} - peregrine_market_short{{{I}}}")]),
        ("Orders and executions", "cps", rate("orders", "peregrine_trade_orders_total")
         + rate("executed", "peregrine_ouch_executed_total") + rate("rejected", "peregrine_ouch_rejected_total")),
        ("Refused by a limit", "cps", reasons("peregrine_risk_refused")),
        ("Market data by line", "pps", rate("{{line}}", "peregrine_mold_datagrams_total")
         + rate("rerequested", "peregrine_mold_datagrams_rerequested_total")
         + rate("lost", "peregrine_mold_lost_total")),
        ("Books", "percentunit", [("{{instance}} order table used",
         f"peregrine_pool_book_orders_used{{{I}}} / peregrine_pool_book_orders_max{{{I}}}")]),
        *PROGRAM],
    "digest": [
        ("Requests", "cps", rate("", "peregrine_digest_requests_total")
         + rate("200", "peregrine_digest_responses_200_total")
         + rate("refused", "peregrine_digest_responses_refused_total")),
        ("Body bytes", "Bps", rate("", "peregrine_digest_body_bytes_total")),
        ("Connections that gave way or were refused", "cps", rate("evicted", "peregrine_digest_evicted_total")
         + rate("expired", "peregrine_digest_expired_total") + rate("refused", "peregrine_digest_refused_busy_total")),
        ("Free share said to the balancer", "percent", level("", "peregrine_agent_free_percent")),
        *PROGRAM],
    "echo": [
        ("Datagrams and connections", "cps", rate("datagrams", "peregrine_echo_datagrams_total")
         + rate("connections", "peregrine_echo_accepted_total")),
        ("TCP bytes", "Bps", rate("", "peregrine_echo_bytes_total")),
        *PROGRAM],
    "time": [
        ("Requests by version", "cps", [curve for v in (1, 2, 3, 4)
                                        for curve in rate(f"NTPv{v}", f"peregrine_ntp_requests_v{v}_total")]),
        ("Kisses of death", "cps", rate("", "peregrine_ntp_kisses_total")),
        *PROGRAM],
    "contest": [
        ("Score", "short", [("{{user}}", f"contest_score{{{I}}}")]),
        ("Answers found", "percentunit", [("{{user}}", f"contest_found_total{{{I}}} / on (instance) group_left () "
                                                       f"contest_offered_total{{{I}}}")]),
        ("Median latency", "s", [("{{user}}", f'contest_latency_seconds{{{I},quantile="0.5"}}')]),
        ("Submissions by result", "cps", [("{{result}}", f"sum by (result) (rate(contest_results_total{{{I}}}[1m]))")]),
        ("Bursts", "cps", [("", f"rate(contest_bursts_total{{{I}}}[1m])")]),
        ("Running, and a warning on the board", "short", [("running", f"contest_running{{{I}}}"),
                                                          ("warning", f"contest_warning{{{I}}}")]),
    ],
}
SOURCE = {"type": "prometheus", "uid": "${source}"}


def panel(index, title, unit, curves):
    red = [{"matcher": {"options": f".*{ALARM}$", "id": "byRegexp"}, "properties": [
        {"value": {"mode": "fixed", "fixedColor": "red"}, "id": "color"}, {"value": 40, "id": "custom.fillOpacity"}]}]
    return {
        "id": index + 1, "type": "timeseries", "title": title, "datasource": SOURCE,
        "gridPos": {"x": index % 2 * WIDTH, "y": index // 2 * HEIGHT, "w": WIDTH, "h": HEIGHT},
        "fieldConfig": {"defaults": {"unit": unit, "min": 0 if unit != "short" else None},
                        "overrides": red if any(legend.endswith(ALARM) for legend, _ in curves) else []},
        "targets": [{"refId": chr(ord("A") + i), "expr": expression, "legendFormat": legend.strip()}
                    for i, (legend, expression) in enumerate(curves)]}


def dashboard(name, rows):
    """Returns a dashboard as values for JSON."""
    instances = "contest_running" if name == "contest" else f'peregrine_build_info{{program="{name}"}}'
    return {
        "uid": f"peregrine-{name}", "title": f"Peregrine: {name}", "tags": ["peregrine"], "schemaVersion": 39,
        "editable": True, "refresh": "5s", "time": {"from": "now-15m", "to": "now"},
        "templating": {"list": [
            {"name": "source", "type": "datasource", "query": "prometheus", "label": "Prometheus"},
            {"name": "instance", "type": "query", "datasource": SOURCE, "label": "Machine", "multi": True,
             "includeAll": True, "refresh": 2, "current": {"text": "All", "value": "$__all"},
             "query": {"query": f"label_values({instances}, instance)", "refId": "instance"}}]},
        "panels": [panel(i, *row) for i, row in enumerate(rows)]}


def write(folder=FOLDER):
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in DASHBOARDS.items():
        text = json.dumps(dashboard(name, rows))
        (folder / f"{name}.json").write_text(text.replace('{"id": ', '\n{"id": ') + "\n")     # a line a panel


if __name__ == "__main__":
    write(*map(pathlib.Path, sys.argv[1:]))
