// The board's page. One state comes with every change (/events); series over time are asked for piece by piece.
"use strict";

const COLOURS = 8, SHOWN = 2, SERIES_MS = 2000, GONE_MS = 15000, HOUR_SAMPLES = 720;       // contest/history.py
const DASHES = [[], [9, 4], [3, 3], [9, 3, 3, 3]];
const byId = id => document.getElementById(id);
const view = {state: null, span: "all", player: "", series: {all: null, hour: null}, latestAnswer: "", heardAt: 0};

// ---- small things ----

const rem = () => parseFloat(getComputedStyle(document.documentElement).fontSize);
const css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const colourOf = place => css(`--c${place % COLOURS}`);
const dashOf = place => DASHES[Math.floor(place / 2) % DASHES.length];
const grouped = n => n == null ? "–" : Math.round(n).toLocaleString("en").replaceAll(",", " ").replace("-", "−");

function short(us) {
  if (us == null) return "–";
  const size = Math.abs(us);
  if (size < 1000) return `${Math.round(us)}`;
  return size < 1e6 ? `${+(us / 1000).toPrecision(3)}k` : `${+(us / 1e6).toPrecision(3)}M`;
}

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

function clock(seconds) {
  if (seconds == null) return "–:––:––";
  const s = Math.max(0, Math.floor(seconds)), two = n => String(n).padStart(2, "0");
  return `${Math.floor(s / 3600)}:${two(Math.floor(s / 60) % 60)}:${two(s % 60)}`;
}

function element(name, text, className) {
  const made = document.createElement(name);
  if (text != null) made.textContent = text;
  if (className) made.className = className;
  return made;
}

// Changes only what differs: nothing flickers, and the selection stays.
function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
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

function drawLive() {
  const on = performance.now() - view.heardAt < GONE_MS && view.connected, state = view.state;
  byId("live").classList.toggle("on", Boolean(on));
  setText(byId("live").lastElementChild, !on ? "no contact" : state?.over ? "final" : state && !state.running ? "server off" : "live");
}

// ---- ranking ----

function drawRanking(state) {
  const body = byId("rows");
  while (body.rows.length < state.users.length) {
    const row = body.insertRow();
    row.tabIndex = -1;
    for (const kind of ["rank", "who", "score", "wide", "wide", "wide", "wide", "wide", "lost", "", "wide"]) row.insertCell().className = kind;
    row.cells[1].append(element("i"), element("span"));
  }
  while (body.rows.length > state.users.length) body.deleteRow(-1);
  state.users.forEach((user, place) => {
    const row = body.rows[place], [p8, p4, p2, p1] = user.points;
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
  while (list.children.length < state.recent.length) {
    const item = element("li"), number = element("p", null, "number");
    number.append(element("span", "", "tag"), element("code"), element("small"));
    item.append(number, element("p", null, "offsets"));
    list.append(item);
  }
  while (list.children.length > state.recent.length) list.lastChild.remove();
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
  const rows = [["first to last player", pair(m.spread_us)],
                [`undisturbed ones (${m.bursts - m.preempted})`, pair(m.spread_undisturbed_us)],
                ["error of receive stamps", pair(m.stamp_error_us)],
                ["merged / late by up to", `${m.merged} / ${short(m.merged_us)} µs`],
                ["burst later than due", pair(m.lag_us)],
                ["submission waited", pair(m.busy_us)],
                ["players / submissions a s", `${m.readers} / ${m.rate}`]];
  const list = byId("measures");
  if (list.children.length !== 2 * rows.length) list.replaceChildren(...rows.flatMap(() => [element("dt"), element("dd")]));
  rows.forEach(([name, value], i) => { setText(list.children[2 * i], name); setText(list.children[2 * i + 1], value); });
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

const charts = {};
const timeLabel = s => s < 3600 ? `${Math.floor(s / 60)}:${String(Math.floor(s % 60)).padStart(2, "0")}` : `${clock(s).slice(0, -3)} h`;
const axisX = () => ({drawGrid: false, axisLabelFormatter: x => Number.isInteger(x) ? timeLabel(x) : "", valueFormatter: x => clock(x), pixelsPerLabel: 70});

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

const hasCharts = typeof Dygraph === "function" && typeof Chart === "function";
if (!hasCharts) document.querySelectorAll(".plot").forEach(box => box.append(element("p", "charts need the packages libjs-dygraphs and libjs-chart.js")));

function graph(id, file, labels, options) {
  if (!hasCharts) return;
  const box = byId(id);
  if (!file.length) return;
  if (!charts[id]) {
    box.append(element("div"));
    charts[id] = new Dygraph(box.firstChild, file, {labels, animatedZooms: false, legend: "never", axisLineColor: css("--line"),
      gridLineColor: css("--line"), gridLineWidth: 1, strokeWidth: 2.2, highlightCircleSize: 0, showLabelsOnHighlight: false,
      connectSeparatedPoints: true, interactionModel: {}, ...options});
  } else {
    charts[id].updateOptions({file, labels, axisLineColor: css("--line"), gridLineColor: css("--line"), ...options});
  }
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
  const names = view.state.users.map(user => user.name).filter(name => series.scores[name]);
  const own = names.slice(0, COLOURS), others = names.slice(COLOURS).reverse();
  const labels = ["s", ...own, ...others];
  const file = rowsOf(series, i => [...own, ...others].map(name => series.scores[name][i]));
  const look = {};
  own.forEach((name, place) => { look[name] = {strokePattern: dashOf(place).length ? dashOf(place) : null, strokeWidth: name === view.player ? 4 : 2.2}; });
  others.forEach(name => { look[name] = {strokeWidth: name === view.player ? 3 : .8, strokePattern: null}; });
  graph("plot-points", file, labels, {colors: [...own.map((_, i) => colourOf(i)), ...others.map(() => css("--soft"))], series: look,
    rightGap: endSpace("plot-points", own), drawCallback: nameEnds("plot-points", own, own.map((_, i) => colourOf(i))), axes: {x: axisX(), y: {axisLabelWidth: 52, axisLabelFormatter: n => short(n)}}});
}

function drawLatency(series) {
  const names = ["10 %", "50 %", "90 %", "99 %"], colours = names.map((_, i) => css(i === 1 ? "--text" : "--soft"));   // none is a player's
  const file = rowsOf(series, i => [0, 1, 2, 3].map(k => series.latency[i][k] ?? null));
  if (!file.some(row => row[1] != null)) return;
  const look = {};
  names.forEach((name, i) => { look[name] = {strokePattern: dashOf(i).length ? dashOf(i) : null, strokeWidth: i === 1 ? 3.4 : 2}; });
  graph("plot-latency", file, ["s", ...names], {colors: colours, series: look, logscale: true,
    rightGap: endSpace("plot-latency", names), drawCallback: nameEnds("plot-latency", names, colours), axes: {x: axisX(), y: {axisLabelWidth: 44, axisLabelFormatter: us => short(us), ticker: decades}}});
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

function chart(id, type, data, axes) {
  if (!hasCharts) return;
  const size = rem() * .8125;
  const style = {color: css("--soft"), font: {size, family: 'system-ui, "DejaVu Sans", sans-serif'}};
  const scales = {};
  for (const [axis, own] of Object.entries(axes)) {
    scales[axis] = {...own, grid: {color: css("--line"), borderColor: css("--line"), display: axis === "y"}, ticks: {...style, ...own.ticks}};
  }
  const options = {animation: false, maintainAspectRatio: false, responsive: true, events: [], scales,
                   plugins: {legend: {display: false}, tooltip: {enabled: false}}};
  if (!charts[id]) charts[id] = new Chart(byId(id), {type, data, options});
  else { Object.assign(charts[id], {data, options}); charts[id].update("none"); }
}

const roundOnly = us => /^[125]0*$/.test(String(us)) ? short(us) : null;

function drawDistribution(state) {
  const names = Object.keys(state.histogram), bins = names.length ? state.histogram[names[0]].length : 0;
  if (!bins) return;
  const middle = i => 10 ** (1 + (i + .5) / 8);
  const filled = [...Array(bins).keys()].filter(i => names.some(name => state.histogram[name][i] > 0));
  const from = Math.max(0, (filled[0] ?? 8) - 2), to = Math.min(bins, (filled[filled.length - 1] ?? 24) + 3);
  chart("plot-distribution", "line", {datasets: names.map((name, place) => ({
    label: name, data: state.histogram[name].slice(from, to).map((y, i) => ({x: middle(from + i), y})), stepped: "middle",
    borderColor: colourOf(place), borderDash: dashOf(place), borderWidth: name === view.player ? 4 : 2, pointRadius: 0}))},
  {x: {type: "logarithmic", min: middle(from), max: middle(to - 1), ticks: {callback: roundOnly, maxRotation: 0, autoSkipPadding: 8}},
   y: {beginAtZero: true, suggestedMax: 20, ticks: {maxTicksLimit: 5}}});
}

function drawMedians(state) {
  const names = Object.keys(state.medians), count = state.round.constants.length;
  const least = Math.min(...names.flatMap(name => state.medians[name].filter(us => us > 0)));
  const range = Number.isFinite(least) ? {min: 10 ** Math.floor(Math.log10(least) - .15)} : {min: 10, max: 1000};
  chart("plot-medians", "bar", {labels: [...Array(count).keys()].map(i => `M${i + 1}`), datasets: names.map((name, place) => ({
    label: name, data: state.medians[name], backgroundColor: colourOf(place), borderColor: name === view.player ? css("--text") : "transparent",
    borderWidth: 2, categoryPercentage: .8, barPercentage: .95}))},
  {x: {}, y: {type: "logarithmic", ...range, ticks: {callback: roundOnly, maxTicksLimit: 6}}});
}

// ---- news ----

function take(state) {
  view.state = state;
  view.heardAt = performance.now();
  if (!view.player && state.users.length) select(state.users[0].name);
  for (const draw of [drawHeader, drawRanking, drawAnswers, drawServer, drawDigits, drawDistribution, drawMedians]) draw(state);
  drawLive();
  document.documentElement.dataset.version = state.now_ns;       // for the test: news have come
}

async function askSeries() {
  if (!view.state || view.asking || document.hidden) return;
  view.asking = true;
  const {span, player} = view;
  try {
    const old = view.series[span], after = old && old.times.length ? old.times[old.times.length - 1] : -1;
    const answer = await fetch(`series.json?span=${span}&after=${after}&player=${encodeURIComponent(player)}`);
    if (!answer.ok) return;
    const fresh = await answer.json();
    if (player !== view.player || span !== view.span) return;
    view.series[span] = merge(old, fresh, span);
    if (view.series[span]) { drawPoints(view.series[span]); drawLatency(view.series[span]); }
  } catch { /* the event source says that there is no contact */ } finally {
    view.asking = false;
    if (player !== view.player || span !== view.span) askSeries();
  }
}

// New samples behind the old ones; the last hour forgets its oldest, as the server does. Another step: all is asked for again.
function merge(old, fresh, span) {
  if (old && old.step !== fresh.step) { view.series[span] = null; setTimeout(askSeries); return null; }
  if (!old) return fresh;
  const before = old.times.length, most = span === "hour" ? HOUR_SAMPLES : Infinity, scores = {};
  const joined = (first, then) => [...first, ...then].slice(-most);
  for (const [name, values] of Object.entries(fresh.scores)) scores[name] = joined(old.scores[name] || Array(before).fill(null), values);
  return {...fresh, times: joined(old.times, fresh.times), scores, latency: joined(old.latency, fresh.latency)};
}

function show({open, state}) {
  if (state) { take(JSON.parse(state)); return; }
  view.connected = open;
  if (open) { view.series = {all: null, hour: null}; view.heardAt = performance.now(); setTimeout(askSeries, 300); }
  drawLive();
}

// All tabs share one stream in a worker. A browser without such workers gives each visible tab its own.
function listen() {
  if (typeof SharedWorker === "function") {
    const {port} = new SharedWorker("events.js");
    port.onmessage = event => show(event.data);
    addEventListener("pagehide", () => port.postMessage("closed"));
    addEventListener("pageshow", event => event.persisted && listen());
    return;
  }
  let source = null;
  const follow = () => {
    if (document.hidden) { source?.close(); source = null; return; }
    if (source && source.readyState !== EventSource.CLOSED) return;
    source = new EventSource("events");
    source.addEventListener("state", event => show({state: event.data}));
    source.addEventListener("open", () => show({open: true}));
    source.addEventListener("error", () => { show({open: false}); setTimeout(follow, 1000); });
  };
  document.addEventListener("visibilitychange", follow);
  follow();
}

// ---- choices ----

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  if (view.state) { take(view.state); const series = view.series[view.span]; if (series) { drawPoints(series); drawLatency(series); } }
}

function setSpan(span) {
  view.span = span;
  for (const button of document.querySelectorAll("[data-span]")) button.setAttribute("aria-pressed", String(button.dataset.span === span));
  askSeries();
}

const dark = matchMedia("(prefers-color-scheme: dark)");
const otherTheme = () => document.documentElement.dataset.theme === "dark" ? "light" : "dark";
setTheme(new URLSearchParams(location.search).get("theme") || (dark.matches ? "dark" : "light"));
dark.addEventListener("change", () => setTheme(dark.matches ? "dark" : "light"));
byId("theme").addEventListener("click", () => setTheme(otherTheme()));
byId("rows").addEventListener("click", event => select(event.target.closest("tr")?.dataset.name));
document.querySelectorAll("[data-span]").forEach(button => button.addEventListener("click", () => setSpan(button.dataset.span)));
document.addEventListener("keydown", event => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const act = {ArrowDown: () => step(1), ArrowUp: () => step(-1), t: () => setTheme(otherTheme()), h: () => setSpan(view.span === "all" ? "hour" : "all")}[event.key];
  if (!act || event.target.closest("#answers") && event.key.startsWith("Arrow")) return;
  event.preventDefault();
  act();
});
setInterval(askSeries, SERIES_MS);
setInterval(drawLive, 1000);
document.addEventListener("visibilitychange", askSeries);
listen();
