// The one event stream of all tabs of a page: a browser allows six connections to a host. Each tab has a port.
"use strict";

const ports = new Set();
let source, latest = null;

function report(message) {
  for (const port of ports) port.postMessage(message);
}

function listen() {
  source = new EventSource("events");
  source.addEventListener("state", event => { latest = event.data; report({state: latest}); });
  source.addEventListener("open", () => report({open: true}));
  source.addEventListener("error", () => {
    report({open: false});
    if (source.readyState === EventSource.CLOSED) setTimeout(listen, 1000);
  });
}

onconnect = ({ports: [port]}) => {
  ports.add(port);
  port.onmessage = () => ports.delete(port);            // the tab is closed
  if (source.readyState === EventSource.OPEN) port.postMessage({open: true});
  if (latest) port.postMessage({state: latest});
};

listen();
