// The board's own script: ranking, answers, points over time. Series are asked for piece by piece.
"use strict";

const SHOWN = 2, SERIES_MS = 2000, HOUR_SAMPLES = 720;       // contest/history.py
Object.assign(view, {span: "all", player: "", series: {all: null, hour: null}, latestAnswer: ""});

// ---- texts ----

// Four characters at most, for a column of a table.
function brief(n) {
  if (n == null) return "–";
  if (n < 1000) return String(Math.round(n));
  const [size, unit] = n < 999500 ? [n / 1000, "k"] : [n / 1e6, "M"];
  return `${size < 9.95 ? size.toFixed(1) : Math.round(size)}${unit}`;
}

function duration(us) {
  const size = Math.abs(us), sign = us < 0 ? "−" : "+";
  if (size < 1e4) return `${sign}${grouped(size)} µs`;
  return size < 1e6 ? `${sign}${(size / 1000).toPrecision(3)} ms` : `${sign}${(size / 1e6).toPrecision(3)} s`;
}

// ---- header ----

function drawHeader(state) {
  const round = state.round, left = state.ends_s ? state.ends_s - state.seconds : null;
  setText(byId("name"), state.name);
  document.title = `${state.name}: board`;
  const count = round.of > 1 ? `round ${round.number} of ${round.of}: ` : "round ";
  setText(byId("round"), `${count}${round.name} · N = ${round.n} · ${round.constants.length} constants · ` +
          `${grouped(state.offered)} answers in ${grouped(state.digits_sent)} digits`);
  const phase = byId("phase");
  phase.hidden = state.factor <= 1;
  setText(phase, `points × ${state.factor}`);
  const clockText = state.seconds == null ? (state.starts_ns !== "0"
    ? `−${clock((Number(state.starts_ns) - Number(state.now_ns)) / 1e9)}` : "not begun")
    : left != null && !state.over ? `${clock(left)} left` : clock(state.seconds);
  setText(byId("clock"), state.over ? "over" : clockText);
  const warning = byId("warning");
  warning.hidden = !state.warning;
  setText(warning, state.warning);
  byId("pictures").hidden = !state.pictures;
}

// ---- ranking ----

function choosePlayer(state) {
  if (!view.player && state.users.length) select(state.users[0].name);
}

function drawRanking(state) {
  const body = byId("rows");
  const rows = fit(body, state.users.length, () => {
    const row = rowOf("tr", "td", ["rank", "who", "score", "wide", "wide", "wide", "wide", "wide", "lost", "", "wide"]);
    row.cells[1].append(element("i"), element("span"));
    return row;
  });
  state.users.forEach((user, place) => {
    const row = rows[place], [p8, p4, p2, p1] = user.points;
    row.dataset.name = user.name;
    const values = [user.rank, null, grouped(user.score), ...[p8, p4, p2, p1, user.early].map(n => n < 1e5 ? n : brief(n)),
                    grouped(user.wrong + user.dup + user.late), brief(user.us[1] || null), brief(user.us[3] || null)];
    values.forEach((value, i) => i !== 1 && setText(row.cells[i], String(value)));
    const [swatch, name] = row.cells[1].children;
    setText(name, user.name);
    row.cells[1].title = `${user.name} from ${user.ip}`;
    const dashes = dashOf(place);
    swatch.style.borderTopColor = place < COLOURS ? colourOf(place) : "transparent";
    swatch.style.borderTopStyle = !dashes.length ? "solid" : dashes[0] > 5 ? "dashed" : "dotted";
    row.setAttribute("aria-selected", String(user.name === view.player));
    row.tabIndex = user.name === view.player ? 0 : -1;
  });
  // A row shows another player when ranks change: the focus goes with the player.
  if (body.contains(document.activeElement)) body.querySelector("[aria-selected=true]")?.focus({preventScroll: true});
  setText(byId("players"), `${state.users.length} players; latency in µs`);
  if (!view.rowHeight && state.users.length) {          // few players: larger rows; once, so that nothing moves later
    const space = body.closest(".scroll").clientHeight - 2.2 * rem();
    view.rowHeight = Math.min(Math.max(space / state.users.length / rem(), 1.9), 2.7);
    body.style.setProperty("--row", `${view.rowHeight.toFixed(2)}rem`);
  }
}

function select(name) {
  if (!name || name === view.player) return;
  view.player = name;
  view.series = {all: null, hour: null};
  setText(byId("who"), name);
  drawRanking(view.state);
  askSeries();
}

function step(by) {
  const rows = [...byId("rows").rows];
  const at = rows.findIndex(row => row.dataset.name === view.player);
  const next = rows[Math.min(Math.max(at + by, 0), rows.length - 1)];
  if (next) {
    select(next.dataset.name);
    next.focus({preventScroll: true});
    next.scrollIntoView({block: "nearest"});
  }
}

// ---- answers, server, digits ----

function drawAnswers(state) {
  const list = byId("answers");
  const first = state.recent.length ? state.recent[0].ns + state.recent[0].digits : "";
  fit(list, state.recent.length, () => {
    const item = rowOf("li", "p", ["number", "offsets"]);
    item.firstChild.append(element("span", "", "tag"), element("code"), element("small"));
    return item;
  });
  state.recent.forEach((answer, i) => {
    const item = list.children[i], [tag, digits, about] = item.firstChild.children;
    const key = answer.ns + answer.digits + answer.count;
    if (item.dataset.key === key) return;
    item.dataset.key = key;
    setText(tag, answer.constants.join(" "));
    const edge = 7, text = answer.digits, more = answer.count - SHOWN;
    setText(digits, text.length > 2 * edge ? `${text.slice(0, edge)}…${text.slice(-edge)}` : text);
    setText(about, `${answer.length} digits${answer.factor > 1 ? ` ×${answer.factor}` : ""}${more > 0 ? `, ${more} more` : ""}`);
    const offsets = item.lastChild;
    offsets.replaceChildren();
    if (!answer.offsets.length) offsets.append("nobody had it");
    for (const [user, us] of answer.offsets.slice(0, SHOWN)) {
      const line = element("span", us < 0 ? "◀ " : "", us < 0 ? "early" : "");
      line.append(element("b", user), ` ${duration(us)}`);
      offsets.append(line);
    }
  });
  if (view.latestAnswer && first !== view.latestAnswer && list.firstChild) {
    list.firstChild.classList.remove("new");
    void list.firstChild.offsetWidth;           // starts the animation again
    list.firstChild.classList.add("new");
  }
  view.latestAnswer = first;
}

function drawServer(state) {
  const m = state.measures, pair = ([middle, most]) => `${short(middle)} / ${short(most)} µs`;
  drawMeasures([["first to last player", pair(m.spread_us)],
                [`undisturbed ones (${m.bursts - m.preempted})`, pair(m.spread_undisturbed_us)],
                ["error of receive stamps", pair(m.stamp_error_us)],
                ["merged / late by up to", `${m.merged} / ${short(m.merged_us)} µs`],
                ["burst later than due", pair(m.lag_us)],
                ["submission waited", pair(m.busy_us)],
                ["players / submissions a s", `${m.readers} / ${m.rate}`]]);
  setText(byId("bursts"), String(m.bursts));
  const top = Math.max(1100, ...m.spreads), y = us => 29 - 27 * us / top;
  const path = m.spreads.map((us, i) => `${i ? "L" : "M"}${i + 120 - m.spreads.length} ${y(us).toFixed(1)}`).join("");
  byId("spreads").innerHTML = `<line x1="0" x2="120" y1="${y(1000)}" y2="${y(1000)}"/><path d="${path}"/>`;
}

function drawDigits(state) {
  const line = element("span");
  let at = 0;
  for (const [from, to, constant] of state.marks) {
    if (from < at) continue;
    const mark = element("mark", state.digits.slice(from, to));
    mark.title = constant;
    line.append(state.digits.slice(at, from), mark);
    at = to;
  }
  line.append(state.digits.slice(at));
  byId("digits").replaceChildren(line);
  setText(byId("sent"), `${grouped(state.bursts)} bursts; marked: parts of an answer`);
}

// ---- charts ----

// Names at the lines' ends, pushed apart: they are known without their colours.
function nameEnds(id, names, colours) {
  return graph => {
    const area = graph.getArea(), size = rem() * .8125, ends = [];
    names.forEach((name, i) => {
      for (let row = graph.numRows() - 1; row >= 0; row--) {
        const value = graph.getValue(row, i + 1);
        if (value != null && !Number.isNaN(value)) { ends.push([graph.toDomYCoord(value), name, i]); break; }
      }
    });
    ends.sort((a, b) => a[0] - b[0]);
    const box = byId(id), left = area.x + area.w + 5;
    box.querySelectorAll(".end").forEach(node => node.remove());
    const nodes = ends.map(([, name, i]) => {
      const node = element("span", name, "end");
      node.style.cssText = `left:${left}px;max-width:${box.clientWidth - left}px;color:${colours[i]}`;
      box.append(node);
      return node;
    });
    const room = nodes.map(node => Math.max(node.offsetHeight, size) * 1.1);
    ends.forEach((end, i) => { end[0] = Math.max(end[0], i ? ends[i - 1][0] + (room[i - 1] + room[i]) / 2 : area.y + room[i] / 2); });
    for (let i = ends.length - 1, low = box.clientHeight; i >= 0; i--) { ends[i][0] = Math.min(ends[i][0], low - room[i] / 2); low = ends[i][0] - room[i] / 2; }
    nodes.forEach((node, i) => { node.style.top = `${ends[i][0]}px`; });
  };
}

// The room for the names at the lines' ends: that of the longest, but no more than a part of the plot.
function endSpace(id, names) {
  const pen = document.createElement("canvas").getContext("2d");
  pen.font = `600 ${rem() * .8125}px ${getComputedStyle(document.body).fontFamily}`;
  return Math.min(Math.ceil(Math.max(...names.map(name => pen.measureText(name).width), 0)) + 10, .4 * byId(id).clientWidth);
}

// Rows for a plot. A stop of the contest is a gap: NaN parts a line.
function rowsOf(series, valuesAt) {
  const gap_s = Math.max(3 * series.step, 15);
  return series.times.flatMap((s, i) => {
    const row = [s, ...valuesAt(i)], before = series.times[i - 1];
    return s - before > gap_s ? [[(s + before) / 2, ...row.slice(1).fill(NaN)], row] : [row];
  });
}

function drawPoints(series) {
  const names = view.state.users.map(user => user.name).filter(name => series.scores.has(name));
  const own = names.slice(0, COLOURS), others = names.slice(COLOURS).reverse(), colours = own.map((_, i) => colourOf(i));
  const file = rowsOf(series, i => [...own, ...others].map(name => series.scores.get(name)[i]));
  const looks = [...own.map((name, place) => strokeOf(place, name === view.player ? 4 : 2.2)),
                 ...others.map(name => ({strokeWidth: name === view.player ? 3 : .8, strokePattern: null}))];
  graph("plot-points", file, looks, {colors: [...colours, ...others.map(() => css("--soft"))],
    rightGap: endSpace("plot-points", own), drawCallback: nameEnds("plot-points", own, colours), axes: {x: axisX(), y: {axisLabelWidth: 52, axisLabelFormatter: n => short(n)}}});
}

function drawLatency(series) {
  const names = ["10 %", "50 %", "90 %", "99 %"], colours = names.map((_, i) => css(i === 1 ? "--text" : "--soft"));   // none is a player's
  const file = rowsOf(series, i => [0, 1, 2, 3].map(k => series.latency[i][k] ?? null));
  if (!file.some(row => row[1] != null)) return;
  graph("plot-latency", file, names.map((_, i) => strokeOf(i, i === 1 ? 3.4 : 2)), {colors: colours, logscale: true,
    rightGap: endSpace("plot-latency", names), drawCallback: nameEnds("plot-latency", names, colours), axes: {x: axisX(), y: {axisLabelWidth: 44, axisLabelFormatter: us => short(us), ticker: decades}}});
}

function drawSeries(series) {
  if (!series) return;
  drawPoints(series);
  drawLatency(series);
}

// Labels at 1, 2 and 5 of each decade, as many as there is room for.
function decades(low, high, pixels) {
  const ticks = [], room = pixels / 26 > 3 * Math.log10(Math.max(high / low, 1.01));
  for (let power = Math.floor(Math.log10(Math.max(low, 1))); power <= Math.log10(high) + 1; power++) {
    for (const digit of room ? [1, 2, 5] : [1]) {
      const v = digit * 10 ** power;
      if (v >= low && v <= high) ticks.push({v, label: short(v)});
    }
  }
  return ticks.length ? ticks : [{v: low, label: short(low)}, {v: high, label: short(high)}];
}

function drawMedians(state) {
  const count = state.round.constants.length;
  const least = Math.min(...state.medians.flatMap(([, values]) => values.filter(us => us > 0)));
  const range = Number.isFinite(least) ? {min: 10 ** Math.floor(Math.log10(least) - .15)} : {min: 10, max: 1000};
  chart("plot-medians", "bar", {labels: [...Array(count).keys()].map(i => `M${i + 1}`), datasets: state.medians.map(([name, values], place) => ({
    label: name, data: values, backgroundColor: colourOf(place), borderColor: name === view.player ? css("--text") : "transparent",
    borderWidth: 2, categoryPercentage: .8, barPercentage: .95}))},
  {x: {}, y: {type: "logarithmic", ...range, ticks: {callback: roundOnly, maxTicksLimit: 6}}});
}

function drawDistribution(state) {
  drawHistograms("plot-distribution", state.histograms, {chosen: view.player});
}

// ---- series ----

async function askSeries() {
  if (!view.state || view.asking || document.hidden) return;
  view.asking = true;
  const {span, player} = view, old = view.series[span], after = old && old.times.length ? old.times[old.times.length - 1] : -1;
  const text = await ask(`series.json?span=${span}&after=${after}&player=${encodeURIComponent(player)}`);
  view.asking = false;
  if (player !== view.player || span !== view.span) { askSeries(); return; }
  if (text == null) return;
  attempt("series.json", () => {
    const fresh = JSON.parse(text);
    view.series[span] = merge(old, {...fresh, scores: new Map(fresh.scores)}, span);
    drawSeries(view.series[span]);
  });
}

// New samples behind the old ones; the last hour forgets its oldest, as the server does. Another step: all is asked for again.
function merge(old, fresh, span) {
  if (old && old.step !== fresh.step) { view.series[span] = null; setTimeout(askSeries); return null; }
  if (!old) return fresh;
  const before = old.times.length, most = span === "hour" ? HOUR_SAMPLES : Infinity, scores = new Map();
  const joined = (first, then) => [...first, ...then].slice(-most);
  for (const [name, values] of fresh.scores) scores.set(name, joined(old.scores.get(name) || Array(before).fill(null), values));
  return {...fresh, times: joined(old.times, fresh.times), scores, latency: joined(old.latency, fresh.latency)};
}

function setSpan(span) {
  view.span = span;
  press(document.querySelectorAll("[data-span]"), button => button.dataset.span === span);
  askSeries();
}

byId("rows").addEventListener("click", event => select(event.target.closest("tr")?.dataset.name));
document.querySelectorAll("[data-span]").forEach(button => button.addEventListener("click", () => setSpan(button.dataset.span)));
setInterval(askSeries, SERIES_MS);
document.addEventListener("visibilitychange", askSeries);
begin({
  parts: [choosePlayer, drawHeader, drawRanking, drawAnswers, drawServer, drawDigits, drawMedians, drawDistribution],
  opened() {
    view.series = {all: null, hour: null};
    setTimeout(askSeries, 300);
  },
  redraw: () => drawSeries(view.series[view.span]),
  keys: {ArrowDown: () => step(1), ArrowUp: () => step(-1), h: () => setSpan(view.span === "all" ? "hour" : "all")},
});
