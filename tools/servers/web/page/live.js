// The script of every live page: texts, rows, charts, the event stream, themes and keys. One state comes with every
// change (/events). The page's own script, main.js, calls `begin` with what draws a state.
"use strict";

const COLOURS = 8, ANSWER_MS = 10000;
const DASHES = [[], [9, 4], [3, 3], [9, 3, 3, 3]];
const byId = id => document.getElementById(id);
const view = {state: null, news: 0, connected: false, unanswered: 0};      // main.js adds its own
const page = {};
const charts = {};

// ---- texts ----

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

// ---- rows ----

// Gives a list, or the body of a table, so many children. `make` makes one. Returns them.
function fit(parent, count, make) {
  while (parent.children.length < count) parent.append(make());
  while (parent.children.length > count) parent.lastElementChild.remove();
  return [...parent.children];
}

// Makes a row or an item, with cells of these classes.
function rowOf(name, cell, classes) {
  const row = element(name);
  row.append(...classes.map(kind => element(cell, null, kind)));
  return row;
}

function fill(cells, values) {
  values.forEach((value, i) => setText(cells[i], value == null ? "" : String(value)));
}

function drawMeasures(rows) {
  const list = byId("measures");
  if (list.children.length !== 2 * rows.length) list.replaceChildren(...rows.flatMap(() => [element("dt"), element("dd")]));
  fill(list.children, rows.flat());
}

function press(buttons, isChosen) {
  for (const button of buttons) button.setAttribute("aria-pressed", String(isChosen(button)));
}

function drawLive() {
  const {connected, state} = view;
  byId("live").classList.toggle("on", connected);
  setText(byId("live").lastElementChild, !connected ? "no contact" : state?.over ? "final" : state?.running === false ? "server off" : "live");
}

// ---- faults ----

const faults = new Map();           // part of the page -> what is wrong

function setFault(part, text) {
  if (text) faults.set(part, text);
  else if (!faults.delete(part)) return;
  const box = byId("fault");
  box.hidden = !faults.size;
  setText(box, `This page is out of order. ${[...faults].map(([name, fault]) => `${name}: ${fault}`).join("; ")}`);
}

// Does a part of the page's work. Its fault is shown until the part works again; the other parts go on.
function attempt(part, act) {
  try {
    act();
    setFault(part, null);
  } catch (error) {
    setFault(part, String(error));
    console.error(error);
  }
}

addEventListener("error", event => event.error && setFault("script", event.message));       // the browser's own have none
addEventListener("unhandledrejection", event => setFault("script", String(event.reason)));

// ---- charts ----

const timeLabel = s => s < 3600 ? `${Math.floor(s / 60)}:${String(Math.floor(s % 60)).padStart(2, "0")}` : `${clock(s).slice(0, -3)} h`;
const axisX = () => ({drawGrid: false, axisLabelFormatter: x => Number.isInteger(x) ? timeLabel(x) : "", valueFormatter: x => clock(x), pixelsPerLabel: 70});
const strokeOf = (place, width) => ({strokePattern: dashOf(place).length ? dashOf(place) : null, strokeWidth: width});

const hasCharts = typeof Dygraph === "function" && typeof Chart === "function";
if (!hasCharts) document.querySelectorAll(".plot").forEach(box => box.append(element("p", "charts need the packages libjs-dygraphs and libjs-chart.js")));

// Draws lines over seconds. `looks`: the stroke of each line. The library knows lines by number: it would take a name
// like `constructor`, `s` or `y` for something of its own.
function graph(id, file, looks, own) {
  if (!hasCharts) return;
  const box = byId(id);
  if (!file.length) return;
  const labels = ["s", ...looks.keys()].map(String), options = {...own, series: Object.fromEntries(looks.entries())};
  if (!charts[id]) {
    box.append(element("div"));
    charts[id] = new Dygraph(box.firstChild, file, {labels, animatedZooms: false, legend: "never", axisLineColor: css("--line"),
      gridLineColor: css("--line"), gridLineWidth: 1, strokeWidth: 2.2, highlightCircleSize: 0, showLabelsOnHighlight: false,
      connectSeparatedPoints: true, interactionModel: {}, ...options});
  } else {
    charts[id].updateOptions({file, labels, axisLineColor: css("--line"), gridLineColor: css("--line"), ...options});
  }
}

function chart(id, type, data, axes, legend = false) {
  if (!hasCharts) return;
  const size = rem() * .8125;
  const style = {color: css("--soft"), font: {size, family: 'system-ui, "DejaVu Sans", sans-serif'}};
  const scales = {};
  for (const [axis, own] of Object.entries(axes)) {
    scales[axis] = {...own, grid: {color: css("--line"), borderColor: css("--line"), display: axis === "y"}, ticks: {...style, ...own.ticks}};
  }
  const options = {animation: false, maintainAspectRatio: false, responsive: true, events: [], scales,
                   plugins: {legend: {display: legend, labels: style}, tooltip: {enabled: false}}};
  if (!charts[id]) charts[id] = new Chart(byId(id), {type, data, options});
  else { Object.assign(charts[id], {data, options}); charts[id].update("none"); }
}

const roundOnly = us => /^[125]0*$/.test(String(us)) ? short(us) : null;

// Draws histograms (tools/latencies.py), each [name, bins], as steps from the first bin with a share to the last.
function drawHistograms(id, histograms, {chosen, legend} = {}) {
  const bins = histograms.length ? histograms[0][1].length : 0;
  if (!bins) return;
  const middle = i => 10 ** (1 + (i + .5) / 8);
  const filled = [...Array(bins).keys()].filter(i => histograms.some(([, shares]) => shares[i] > 0));
  const from = Math.max(0, (filled[0] ?? 8) - 2), to = Math.min(bins, (filled[filled.length - 1] ?? 24) + 3);
  chart(id, "line", {datasets: histograms.map(([name, shares], place) => ({
    label: name, data: shares.slice(from, to).map((y, i) => ({x: middle(from + i), y})), stepped: "middle",
    borderColor: colourOf(place), borderDash: dashOf(place), borderWidth: name === chosen ? 4 : 2, pointRadius: 0}))},
  {x: {type: "logarithmic", min: middle(from), max: middle(to - 1), ticks: {callback: roundOnly, maxRotation: 0, autoSkipPadding: 8}},
   y: {beginAtZero: true, suggestedMax: 20, ticks: {maxTicksLimit: 5}}}, legend);
}

// ---- news ----

// Returns the text of an address, or null. After three of those a page in contact says so.
async function ask(address) {
  let text = null;
  try {
    const answer = await fetch(address, {signal: AbortSignal.timeout(ANSWER_MS)});
    if (answer.ok) text = await answer.text();
  } catch { /* no contact, or none in time */ }
  view.unanswered = text == null ? view.unanswered + 1 : 0;
  if (view.unanswered >= 3 && view.connected) setFault(address.split("?")[0], "no answer");
  return text;
}

function draw() {
  if (!view.state) return;
  for (const part of page.parts) attempt(part.name, () => part(view.state));
}

function showLatest() {
  attempt("state", () => Object.assign(view, {state: JSON.parse(latest), news: view.news + 1}));
  latest = null;
  draw();
  drawLive();
}

// A state is left out if the next one is there before it is drawn: else a slow page would fall behind for ever.
let latest = null;
function show({open, state, fault}) {
  if (state) {
    if (latest == null) setTimeout(showLatest);
    latest = state;
    return;
  }
  if (fault) {
    setFault("events", fault);
  } else {
    view.connected = open;
    if (open) page.opened?.();
  }
  drawLive();
}

// All tabs share one stream in a worker. A browser without such workers gives each visible tab its own.
function listen() {
  if (typeof SharedWorker === "function") {
    const worker = new SharedWorker("events.js"), {port} = worker;
    worker.onerror = () => setFault("events", "the script that follows them has failed");
    port.onmessage = event => show(event.data);
    addEventListener("pagehide", () => port.postMessage("closed"));
    addEventListener("pageshow", event => event.persisted && listen());
    return;
  }
  let end = null;
  const turn = () => {
    if (!document.hidden) end ??= follow(show);
    else { end?.(); end = null; }
  };
  document.addEventListener("visibilitychange", turn);
  turn();
}

// ---- choices ----

const dark = matchMedia("(prefers-color-scheme: dark)");
const otherTheme = () => document.documentElement.dataset.theme === "dark" ? "light" : "dark";

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  draw();
  if (view.state) page.redraw?.();
}

// Begins to follow the events. `parts`: functions that draw a state, each its part. `redraw`, if there is one, draws the rest in another theme.
// `opened` is called when contact begins. `keys`: a key, and what it does.
function begin(own) {
  Object.assign(page, own);
  setTheme(new URLSearchParams(location.search).get("theme") || (dark.matches ? "dark" : "light"));
  dark.addEventListener("change", () => setTheme(dark.matches ? "dark" : "light"));
  byId("theme").addEventListener("click", () => setTheme(otherTheme()));
  document.addEventListener("keydown", event => {
    const act = event.key === "t" ? () => setTheme(otherTheme()) : page.keys[event.key];
    if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest("ol.scroll") && event.key.startsWith("Arrow")) return;       // the list scrolls
    event.preventDefault();
    act();
  });
  listen();
}
