"""The page of a replay: one file without scripts, that needs no other."""
import html
import re
import time

WIDTH, HEIGHT, LEFT = 900, 220, 70

STYLE = """
:root { color-scheme: light dark; font: 15px/1.4 system-ui, sans-serif; }
body { max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
svg { width: 100%; height: auto; }
svg text { font-size: 11px; fill: currentColor; }
.axis { stroke: currentColor; stroke-opacity: .3; }
.line { fill: none; stroke: #2a7de1; stroke-width: 1.5; }
.bar { fill: #2a7de1; }
.fall { fill: #d33; fill-opacity: .35; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
td, th { padding: .1rem .8rem .1rem 0; text-align: right; }
td:nth-child(-n+2), th:nth-child(-n+2) { text-align: left; }
.scroll { overflow-x: auto; }
"""

MODEL = """The market is the recorded one, and our orders do not move it. An order that meets the best opposite price
trades there at once, with at most the shares that stand there. The rest of an order waits behind the shares that its
price has then; the executions and cancellations of orders before it bring it forward. Once nothing is ahead, it trades
with each later execution at its price or a worse one, and at its own price when the opposite best price reaches it.
Trades with hidden orders and auctions fill nothing."""


def clock(ns):
    """Returns the time of day, with the date if the time is since 1970."""
    seconds, day_s = ns // 10**9, 24 * 3600
    of_day = "%02d:%02d:%02d" % (seconds // 3600 % 24, seconds // 60 % 60, seconds % 60)
    return of_day if seconds < 2 * day_s else time.strftime("%Y-%m-%d ", time.gmtime(seconds)) + of_day + " UTC"


def dollars(units):
    return f"{units / 1e4:,.2f}"


def axis(low, high, text):
    """Returns lines and labels at both ends of the values, and a function from a value to its height."""
    span = (high - low) or 1

    def y(value):
        return HEIGHT - 20 - (value - low) / span * (HEIGHT - 40)

    marks = "".join(f'<line class="axis" x1="{LEFT}" x2="{WIDTH}" y1="{y(value):.1f}" y2="{y(value):.1f}"/>'
                    f'<text x="{LEFT - 6}" y="{y(value) + 4:.1f}" text-anchor="end">{text(value)}</text>'
                    for value in sorted({low, 0, high}))
    return marks, y


def svg(label, *parts):
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">{"".join(parts)}</svg>'


def profit_plot(rows):
    """Returns profit by time; the drawdown of each moment hangs below the line."""
    if not rows:
        return "<p>No profit and no loss.</p>"
    begin, end = rows[0][0], max(rows[-1][0], rows[0][0] + 1)
    highest, lowest = 0, []
    for _, profit, _ in rows:
        highest = max(highest, profit)
        lowest.append(highest)
    marks, y = axis(min(0, *(row[1] for row in rows)), max(0, highest), dollars)
    xs = [LEFT + (row[0] - begin) / (end - begin) * (WIDTH - LEFT) for row in rows]
    line = [f"{x:.1f},{y(row[1]):.1f}" for x, row in zip(xs, rows)]
    peak = [f"{x:.1f},{y(high):.1f}" for x, high in zip(xs, lowest)]
    times = (f'<text x="{LEFT}" y="{HEIGHT - 2}">{clock(begin)}</text>'
             f'<text x="{WIDTH}" y="{HEIGHT - 2}" text-anchor="end">{clock(end)}</text>')
    return svg("profit by time", marks, f'<polygon class="fall" points="{" ".join(line + peak[::-1])}"/>',
               f'<polyline class="line" points="{" ".join(line)}"/>', times)


def delay_plot(bins):
    if not bins:
        return "<p>No order has followed from a packet.</p>"
    marks, y = axis(0, max(count for _, count in bins), lambda count: f"{count:,}")
    width = (WIDTH - LEFT) / len(bins)
    bars = "".join(f'<rect class="bar" x="{LEFT + i * width:.1f}" width="{max(width - 1, 1):.1f}" y="{y(count):.1f}" '
                   f'height="{y(0) - y(count):.1f}"><title>up to {end:,} ns: {count:,}</title></rect>'
                   for i, (end, count) in enumerate(bins))
    ends = (f'<text x="{LEFT}" y="{HEIGHT - 2}">up to {bins[0][0]:,} ns</text>'
            f'<text x="{WIDTH}" y="{HEIGHT - 2}" text-anchor="end">{bins[-1][0]:,} ns</text>')
    return svg("time from packet to order", marks, bars, ends)


def event_row(event):
    price = dollars(event["price"]) if "price" in event else ""
    cells = [f"{clock(event['time'])}.{event['time'] % 10**9 // 1000:06}", event["event"], event["reference"],
             event.get("symbol", ""), event.get("side", ""), event.get("shares", ""), price]
    return "<tr>" + "".join(f"<td>{html.escape(str(cell))}</td>" for cell in cells) + "</tr>"


def symbol_rows(statistics):
    """Yields a row for each stock that has fills: the position, the fills and the profit of the day."""
    for name, fills in statistics.items():
        if fills and (match := re.fullmatch(r"market\.(.+)\.fills", name)):
            def value(key, head=f"market.{match[1]}."):
                return statistics[head + key]
            cells = (match[1], "", value("long") - value("short"), fills, dollars(value("profit") - value("loss")))
            yield "<tr>" + "".join(f"<td>{html.escape(str(cell))}</td>" for cell in cells) + "</tr>"


def render(day):
    """Returns the page of a replay's document, with its `latest` events."""
    got = day["summary"]
    rows = [("day", f"{clock(got['from'])} to {clock(got['until'])}, {got['packets']:,} packets"),
            ("settings", " ".join(day["settings"]) or "-"),
            ("orders", f"{got['orders']:,}, replacements {got['replacements']:,}, cancellations "
                       f"{got['cancellations']:,}, rejected {got['rejected']:,}"),
            ("fills", f"{got['fills']:,} of {got['shares']:,} shares"),
            ("profit", f"$ {dollars(got['profit'])}"), ("largest drawdown", f"$ {dollars(got['drawdown'])}"),
            ("tick to order", f"p50 {day['tick_to_order_ns']['p50']:,} ns, p99 {day['tick_to_order_ns']['p99']:,} ns, "
                              "this machine's computing time")]
    fills = (f"{MODEL} An order and a response take {day['latency_ns'] / 1000:g} µs each." if day["fills"] == "model"
             else "The exchange's responses are those of the recorded day.")
    name = html.escape(day["file"])
    table = "".join(f"<tr><td>{key}</td><td>{html.escape(value)}</td></tr>" for key, value in rows)
    events = "".join(event_row(event) for event in reversed(day["latest"]))
    heads = "".join(f"<th>{head}</th>" for head in ("time", "event", "reference", "stock", "side", "shares", "price"))
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Replay of {name}</title><style>{STYLE}</style></head><body>
<h1>Replay of {name}</h1>
<table>{table}</table>
<h2>Stocks</h2>
<table><thead><tr><th>stock</th><th></th><th>position</th><th>fills</th><th>profit, $</th></tr></thead>
<tbody>{"".join(symbol_rows(day["statistics"]))}</tbody></table>
<h2>Profit by time, $</h2>
{profit_plot(day["profit"])}
<h2>Tick to order</h2>
{delay_plot(day["tick_to_order_ns"]["bins"])}
<h2>Fills</h2>
<p>{fills}</p>
<h2>The latest events</h2>
<div class="scroll"><table><thead><tr>{heads}</tr></thead><tbody>{events}</tbody></table></div>
</body></html>
"""
