// Follows the server's events. A stream that fails, or is silent for longer than the server ever is (live_page.py:
// ALIVE_S), is closed, and a new one is opened: a proxy may swallow a connection without closing it. As a shared worker
// this script follows for all tabs of a page: a browser allows six connections to a host. Each tab has a port.
"use strict";

const SILENT_MS = 15000, RETRY_MS = 500, RETRY_MAX_MS = 16000;

// Reports {open} and {state}. Returns a function that ends it.
function follow(report) {
  let source, timer, retry_ms = RETRY_MS;

  function wait(ms, act) {
    clearTimeout(timer);
    timer = setTimeout(act, ms);
  }
  const hear = () => wait(SILENT_MS, lose);

  function lose() {
    source.close();
    report({open: false});
    wait(retry_ms, connect);
    retry_ms = Math.min(2 * retry_ms, RETRY_MAX_MS);
  }

  function connect() {
    source = new EventSource("events");
    source.addEventListener("open", () => { hear(); report({open: true}); });
    source.addEventListener("alive", hear);
    source.addEventListener("state", event => { hear(); retry_ms = RETRY_MS; report({state: event.data}); });
    source.addEventListener("error", lose);
    hear();
  }

  connect();
  return () => { clearTimeout(timer); source.close(); };
}

if ("onconnect" in self) {
  const ports = new Set(), latest = {open: false};

  const report = message => {
    Object.assign(latest, message);
    for (const port of ports) port.postMessage(message);
  };
  self.onconnect = ({ports: [port]}) => {
    ports.add(port);
    port.onmessage = () => ports.delete(port);          // the tab is closed
    if (latest.open) port.postMessage({open: true});
    if (latest.state) port.postMessage({state: latest.state});
  };
  self.onerror = text => report({fault: text});
  follow(report);
}
