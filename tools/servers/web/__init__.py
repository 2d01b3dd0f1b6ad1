"""HTTP requests, and the server, style and script of a live page: parts of `contest` and `exchange`."""
