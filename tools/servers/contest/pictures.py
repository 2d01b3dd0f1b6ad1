"""board.png, score.png and latency.png, drawn by matplotlib. `DATA` takes what a picture needs, `DRAW` makes it."""
import io

import matplotlib

matplotlib.use("Agg")
from matplotlib.figure import Figure  # noqa: E402  (the backend is chosen before)

# Okabe and Ito's colours, which the colour-blind distinguish; line styles repeat the distinction.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#777777", "#000000")
STYLES = ("-", "--", "-.", ":")
PLAYERS_MAX = 8
ROWS_MAX = 40
HEADS = ("", "player", "points", "+8", "+4", "+2", "+1", "early", "late", "wrong", "dup", "p50 us", "p99 us")


def board_data(replica):
    rows = []
    for rank, user in replica.contest.ranking()[:ROWS_MAX]:
        latency = user.latency()
        rows.append([str(v) for v in (rank, user.name, user.score, *(user.points[p] for p in (8, 4, 2, 1)), user.early,
                                      user.late, user.wrong, user.dup, round(latency["p50"]), round(latency["p99"]))])
    return f"{replica.plan.name} — {replica.contest.round.name.rsplit('/', 1)[-1]}", rows


def draw_board(data):
    title, rows = data
    figure = Figure(figsize=(11, 1.3 + 0.3 * len(rows)), dpi=100)
    axes = figure.add_axes((0.02, 0.02, 0.96, 0.9))
    axes.axis("off")
    axes.set_title(title, loc="left", fontsize=15, fontweight="bold")
    table = axes.table([*rows] or [[""] * len(HEADS)], colLabels=HEADS, loc="upper center", cellLoc="right",
                       colWidths=[0.04, 0.2] + [0.069] * (len(HEADS) - 2), edges="horizontal")
    table.auto_set_font_size(False)
    table.set_fontsize(10)
    table.scale(1, 1.4)
    for (row, column), cell in table.get_celld().items():
        cell.set_edgecolor("#cccccc")
        cell.get_text().set_fontweight("bold" if row == 0 or column == 2 else "normal")
        if column == 1:
            cell.get_text().set_horizontalalignment("left")
    return as_png(figure)


def score_data(replica):
    series = replica.history.whole
    names = [user.name for _, user in replica.contest.ranking()[:PLAYERS_MAX]]
    return list(series.times), {name: [sample.get(name, [None])[0] for sample in series.players] for name in names}


def draw_score(data):
    times, players = data
    figure, axes = chart("seconds", "points")
    for i, (name, scores) in enumerate(players.items()):
        points = [(t, s) for t, s in zip(times, scores) if s is not None]
        if points:
            axes.plot(*zip(*points), color=COLOURS[i], linestyle=STYLES[i % 4], label=name)
    return finish(figure, axes)


def latency_data(replica):
    return {user.name: sorted(user.latencies_us) for _, user in replica.contest.ranking()[:PLAYERS_MAX]}


def draw_latency(data):
    figure, axes = chart("microseconds from the last digit to the submission", "% at least as fast")
    for i, (name, values) in enumerate(data.items()):
        if values:
            axes.plot(values, [100 * (k + 1) / len(values) for k in range(len(values))], color=COLOURS[i],
                      linestyle=STYLES[i % 4], label=name)
    axes.set_xscale("log")
    return finish(figure, axes)


def chart(x_name, y_name):
    figure = Figure(figsize=(11, 5), dpi=100)
    axes = figure.add_subplot()
    axes.set_xlabel(x_name)
    axes.set_ylabel(y_name)
    axes.grid(color="#dddddd", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def finish(figure, axes):
    if axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    figure.set_layout_engine("tight")
    return as_png(figure)


def as_png(figure):
    out = io.BytesIO()
    figure.savefig(out, format="png")
    return out.getvalue()


DATA = {"/board.png": board_data, "/score.png": score_data, "/latency.png": latency_data}
DRAW = {"/board.png": draw_board, "/score.png": draw_score, "/latency.png": draw_latency}
