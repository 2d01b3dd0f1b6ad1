// The exchange's page. One state comes with every change (/events).
"use strict";

const GONE_MS = 15000;
const byId = id => document.getElementById(id);
const view = {state: null, symbol: "", heardAt: 0, connected: false};
const charts = {};

// ---- small things ----

const css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const rem = () => parseFloat(getComputedStyle(document.documentElement).fontSize);
const colourOf = place => css(`--c${place % 8}`);
const grouped = n => Math.round(n).toLocaleString("en").replaceAll(",", " ").replace("-", "−");
const price = n => (n / 10000).toFixed(n % 100 ? 4 : 2);
const dollars = n => (n < 0 ? "−" : "") + Math.abs(n / 10000).toFixed(2);

function clock(seconds) {
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

// Gives a table's body as many rows as there are, with cells of these classes.
function fitRows(body, count, classes) {
  while (body.rows.length < count) {
    const row = body.insertRow();
    for (const kind of classes) row.insertCell().className = kind;
  }
  while (body.rows.length > count) body.deleteRow(-1);
  return [...body.rows];
}

function fill(cells, values) {
  values.forEach((value, i) => setText(cells[i], value == null ? "" : String(value)));
}

// ---- header, book, trades ----

function drawHeader(state) {
  setText(byId("round"), `session ${state.session} · ${state.phase} · ${grouped(state.messages)} messages`);
  setText(byId("clock"), clock(state.seconds));
}

function drawLive() {
  const on = performance.now() - view.heardAt < GONE_MS && view.connected;
  byId("live").classList.toggle("on", Boolean(on));
  setText(byId("live").lastElementChild, !on ? "no contact" : view.state?.over ? "final" : "live");
}

function drawSymbols(state) {
  const box = byId("symbols");
  if (box.children.length === state.books.length) return;
  box.replaceChildren(...state.books.map(({symbol}) => {
    const button = element("button", symbol);
    button.type = "button";
    button.addEventListener("click", () => select(symbol));
    return button;
  }));
}

function drawBook(state) {
  const book = state.books.find(({symbol}) => symbol === view.symbol) || state.books[0];
  view.symbol = book.symbol;
  for (const button of byId("symbols").children) button.setAttribute("aria-pressed", String(button.textContent === book.symbol));
  setText(byId("about-book"), `last ${price(book.last)} · ${grouped(book.traded)} shares traded${book.state === "T" ? "" : " · halted"}`);
  const most = Math.max(1, ...book.bids.map(level => level[1]), ...book.offers.map(level => level[1]));
  const rows = fitRows(byId("levels"), 10, ["own", "", "size", "bid", "ask offer", "size offer", "offer", "own offer"]);
  rows.forEach((row, i) => {
    const bid = book.bids[i], offer = book.offers[i], cells = row.cells;
    fill(cells, [bid?.[3] || null, bid?.[2], bid && grouped(bid[1]), bid && price(bid[0]),
                 offer && price(offer[0]), offer && grouped(offer[1]), offer?.[2], offer?.[3] || null]);
    cells[2].style.setProperty("--part", `${bid ? 100 * bid[1] / most : 0}%`);
    cells[5].style.setProperty("--part", `${offer ? 100 * offer[1] / most : 0}%`);
  });
}

function drawTrades(state) {
  const list = byId("prints");
  while (list.children.length < state.trades.length) {
    const item = element("li");
    for (let i = 0; i < 5; i++) item.append(element("span"));
    list.append(item);
  }
  state.trades.forEach(([seconds, symbol, side, shares, at], i) => {
    const cells = list.children[i].children;
    fill(cells, [clock(seconds), symbol, side, grouped(shares), price(at)]);
    cells[2].className = side;
  });
}

// ---- accounts, lines ----

function drawAccounts(state) {
  const lines = state.accounts.flatMap(account => {
    const first = [account.user + (account.connected ? "" : " (away)"), "all", null, dollars(account.profit), account.open,
                   (account.counts.enter || 0) + (account.counts.replace || 0), account.us?.[0], account.us?.[1]];
    return [first, ...Object.entries(account.positions).map(([symbol, [shares, profit]]) => [null, symbol, grouped(shares), dollars(profit)])];
  });
  const rows = fitRows(byId("rows"), lines.length, ["who", "who", "", "", "", "", "", ""]);
  rows.forEach((row, i) => {
    fill(row.cells, [...lines[i], null, null, null, null].slice(0, 8));
    row.cells[3].classList.toggle("loss", lines[i][3].startsWith("−"));
  });
}

function drawLines(state) {
  const [a, b] = state.lines, both = name => `${grouped(a[name])} / ${grouped(b[name])}`;
  const rows = [["packets sent, A / B", both("sent")], ["lost on purpose", both("lost")], ["sent twice", both("repeated")],
                ["out of order", both("reordered")], ["requests, refused", `${state.counts.requests || 0}, ${state.counts["requests refused"] || 0}`],
                ["late by", `${state.behind_ms} ms`]];
  const list = byId("measures");
  if (list.children.length !== 2 * rows.length) list.replaceChildren(...rows.flatMap(() => [element("dt"), element("dd")]));
  rows.forEach(([name, value], i) => { setText(list.children[2 * i], name); setText(list.children[2 * i + 1], value); });
}

// ---- charts ----

const hasCharts = typeof Dygraph === "function" && typeof Chart === "function";
if (!hasCharts) document.querySelectorAll(".plot").forEach(box => box.append(element("p", "charts need the packages libjs-dygraphs and libjs-chart.js")));

function drawProfit(state) {
  if (!hasCharts || state.profits.length < 2) return;
  const names = state.accounts.map(account => account.user);
  const options = {file: state.profits, labels: ["s", ...names], colors: names.map((_, i) => colourOf(i)), axisLineColor: css("--line"), gridLineColor: css("--line")};
  if (charts.profit) { charts.profit.updateOptions(options); return; }
  const box = byId("plot-profit");
  box.append(element("div"));
  charts.profit = new Dygraph(box.firstChild, state.profits, {...options, legend: "never", strokeWidth: 2.2, highlightCircleSize: 0,
    interactionModel: {}, axes: {x: {drawGrid: false, axisLabelFormatter: s => clock(s), pixelsPerLabel: 80}, y: {axisLabelWidth: 60}}});
}

function drawDelays(state) {
  if (!hasCharts) return;
  const middle = i => 10 ** (1 + (i + .5) / 8);          // contest/board_state.py: eight bins a decade, from 10 µs
  const accounts = state.accounts.filter(account => account.us);
  if (!accounts.length) return;
  const style = {color: css("--soft"), font: {size: rem() * .8125}};
  const label = us => /^[125]0*$/.test(String(us)) ? (us < 1e6 ? grouped(us) : `${us / 1e6} s`) : null;
  const data = {datasets: accounts.map(({user, histogram}, place) => ({label: user, data: histogram.map((y, i) => ({x: middle(i), y})),
    stepped: "middle", borderColor: colourOf(place), borderWidth: 2, pointRadius: 0}))};
  const options = {animation: false, maintainAspectRatio: false, responsive: true, events: [],
    plugins: {legend: {display: accounts.length > 1, labels: style}, tooltip: {enabled: false}},
    scales: {x: {type: "logarithmic", ticks: {...style, callback: label, maxRotation: 0}, grid: {display: false}},
             y: {beginAtZero: true, ticks: {...style, maxTicksLimit: 5}, grid: {color: css("--line")}}}};
  if (!charts.delays) charts.delays = new Chart(byId("plot-delays"), {type: "line", data, options});
  else { Object.assign(charts.delays, {data, options}); charts.delays.update("none"); }
}

// ---- news ----

function take(state) {
  view.state = state;
  view.heardAt = performance.now();
  for (const draw of [drawHeader, drawSymbols, drawBook, drawTrades, drawAccounts, drawLines, drawProfit, drawDelays]) draw(state);
  drawLive();
  document.documentElement.dataset.version = String(state.messages);       // for the test: news have come
}

function select(symbol) {
  view.symbol = symbol;
  if (view.state) drawBook(view.state);
}

function show({open, state}) {
  if (state) { take(JSON.parse(state)); return; }
  view.connected = open;
  if (open) view.heardAt = performance.now();
  drawLive();
}

// All tabs share one stream in a worker. A browser without such workers gives each tab its own.
function listen() {
  if (typeof SharedWorker === "function") {
    const {port} = new SharedWorker("events.js");
    port.onmessage = event => show(event.data);
    addEventListener("pagehide", () => port.postMessage("closed"));
    return;
  }
  const source = new EventSource("events");
  source.addEventListener("state", event => show({state: event.data}));
  source.addEventListener("open", () => show({open: true}));
  source.addEventListener("error", () => show({open: false}));
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  if (view.state) take(view.state);
}

const dark = matchMedia("(prefers-color-scheme: dark)");
const otherTheme = () => document.documentElement.dataset.theme === "dark" ? "light" : "dark";
setTheme(new URLSearchParams(location.search).get("theme") || (dark.matches ? "dark" : "light"));
byId("theme").addEventListener("click", () => setTheme(otherTheme()));
document.addEventListener("keydown", event => {
  if (event.ctrlKey || event.metaKey || event.altKey || !view.state) return;
  if (event.key === "t") setTheme(otherTheme());
  if (event.key === "s") {
    const symbols = view.state.books.map(book => book.symbol);
    select(symbols[(symbols.indexOf(view.symbol) + 1) % symbols.length]);
  }
});
setInterval(drawLive, 1000);
listen();
