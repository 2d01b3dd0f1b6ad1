// The exchange's own script: books, trades, accounts, lines.
"use strict";

view.symbol = "";
const price = n => (n / 10000).toFixed(n % 100 ? 4 : 2);
const dollars = n => (n < 0 ? "−" : "") + Math.abs(n / 10000).toFixed(2);

// ---- header, book, trades ----

function drawHeader(state) {
  setText(byId("round"), `session ${state.session} · ${state.phase} · ${grouped(state.messages)} messages`);
  setText(byId("clock"), clock(state.seconds));
  setText(byId("note"), state.note);
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
  press(byId("symbols").children, button => button.textContent === book.symbol);
  setText(byId("about-book"), `last ${price(book.last)} · ${grouped(book.traded)} shares traded${book.state === "T" ? "" : " · halted"}`);
  const most = Math.max(1, ...book.bids.map(level => level[1]), ...book.offers.map(level => level[1]));
  const rows = fit(byId("levels"), 10, () => rowOf("tr", "td", ["own", "", "size", "bid", "ask offer", "size offer", "offer", "own offer"]));
  rows.forEach((row, i) => {
    const bid = book.bids[i], offer = book.offers[i], cells = row.cells;
    fill(cells, [bid?.[3] || null, bid?.[2], bid && grouped(bid[1]), bid && price(bid[0]),
                 offer && price(offer[0]), offer && grouped(offer[1]), offer?.[2], offer?.[3] || null]);
    cells[2].style.setProperty("--part", `${bid ? 100 * bid[1] / most : 0}%`);
    cells[5].style.setProperty("--part", `${offer ? 100 * offer[1] / most : 0}%`);
  });
}

function drawTrades(state) {
  const items = fit(byId("prints"), state.trades.length, () => rowOf("li", "span", ["", "", "", "", ""]));
  state.trades.forEach(([seconds, symbol, side, shares, at], i) => {
    const cells = items[i].children;
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
  const rows = fit(byId("rows"), lines.length, () => rowOf("tr", "td", ["who", "who", "", "", "", "", "", ""]));
  rows.forEach((row, i) => {
    fill(row.cells, [...lines[i], null, null, null, null].slice(0, 8));
    row.cells[3].classList.toggle("loss", lines[i][3].startsWith("−"));
  });
}

function drawLines(state) {
  const [a, b] = state.lines, both = name => `${grouped(a[name])} / ${grouped(b[name])}`;
  drawMeasures([["packets sent, A / B", both("sent")], ["lost on purpose", both("lost")], ["sent twice", both("repeated")],
                ["out of order", both("reordered")], ["requests, refused", `${state.counts.requests || 0}, ${state.counts["requests refused"] || 0}`],
                ["late by", `${state.behind_ms} ms`]]);
}

// ---- charts ----

function drawProfit(state) {
  const looks = state.accounts.map((_, i) => strokeOf(i, 2.2));
  if (state.profits.length > 1) graph("plot-profit", state.profits, looks, {colors: looks.map((_, i) => colourOf(i)),
    axes: {x: axisX(), y: {axisLabelWidth: 60}}});
}

function drawDelays(state) {
  const histograms = state.accounts.map(({user, histogram}) => [user, histogram]);
  drawHistograms("plot-delays", histograms, {legend: histograms.length > 1});
}

// ---- choices ----

function select(symbol) {
  view.symbol = symbol;
  if (view.state) drawBook(view.state);
}

function selectNext() {
  const symbols = view.state.books.map(book => book.symbol);
  select(symbols[(symbols.indexOf(view.symbol) + 1) % symbols.length]);
}

begin({
  parts: [drawHeader, drawSymbols, drawBook, drawTrades, drawAccounts, drawLines, drawProfit, drawDelays],
  keys: {s: () => view.state && selectNext()},
});
