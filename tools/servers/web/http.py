"""HTTP/1.1 requests out of a stream of bytes, RFC 9112. Enough of it for the tools' servers."""
import dataclasses
import re
import urllib.parse

HEAD_BYTES_MAX = 8192
HEAD_LINES_MAX = 100
BODY_BYTES_MAX = 16384
FIELDS_MAX = 32                 # a query of thousands takes 20 ms
EMPTY_LINES = re.compile(rb"(?:\r\n)*")
TOKEN = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
LINE = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+) ([!-~]+) HTTP/1\.([0-9])")
OTHER_VERSION = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+ [!-~]+ HTTP/[02-9]\.[0-9]")
NO_VALUE = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")      # RFC 9110 §5.5; a bare CR or LF too: RFC 9112 §2.2
REASONS = {100: "Continue", 200: "OK", 400: "Bad Request", 401: "Unauthorized", 403: "Forbidden", 404: "Not Found",
           405: "Method Not Allowed", 411: "Length Required", 413: "Content Too Large", 429: "Too Many Requests",
           431: "Head Too Large", 503: "Service Unavailable", 505: "HTTP Version Not Supported"}


class BadRequest(Exception):
    """Carries the status to answer with; the connection ends after it."""

    def __init__(self, status, reason):
        super().__init__(reason)
        self.status, self.method = status, ""


@dataclasses.dataclass
class Request:
    method: str
    path: str
    query: dict
    body: bytes
    keep_alive: bool


class RequestParser:
    """Give it bytes, ask it for requests; pipelined ones come out one by one."""

    def __init__(self):
        self.buffer = bytearray()
        self.head = None                # (Request, body bytes still to come) once the head is complete
        self.wants_continue = False     # RFC 9110 §10.1.1; the server answers 100 and clears it

    def feed(self, data):
        self.buffer += data

    def next_request(self):
        """Returns a request, or None while it is not complete. Raises BadRequest."""
        self.method = ""
        try:
            if self.head is None and not self._take_head():
                return None
        except BadRequest as error:
            error.method = self.method
            raise
        request, length = self.head
        if len(self.buffer) < length:
            return None
        request.body = bytes(self.buffer[:length])
        del self.buffer[:length]
        self.head = None
        self.wants_continue = False
        return request

    def _take_head(self):
        del self.buffer[:EMPTY_LINES.match(self.buffer).end()]      # RFC 9112 §2.2: those before a request are skipped
        self.method = "HEAD" if self.buffer.startswith(b"HEAD ") else ""    # even if the rest is malformed
        end = self.buffer.find(b"\r\n\r\n")
        if (len(self.buffer) if end < 0 else end) > HEAD_BYTES_MAX:
            raise BadRequest(431, "the head is too long")
        if end < 0:
            return False
        first, *lines = bytes(self.buffer[:end]).split(b"\r\n")
        if len(lines) > HEAD_LINES_MAX:
            raise BadRequest(431, "the head has too many lines")
        del self.buffer[:end + 4]
        match = LINE.fullmatch(first)
        if not match and OTHER_VERSION.fullmatch(first):
            raise BadRequest(505, "the version is not HTTP/1.1")        # RFC 9110 §15.6.6
        if not match:
            raise BadRequest(400, "the request line is malformed")
        self.method = match[1].decode()
        headers = {}
        for line in lines:
            name, colon, value = line.partition(b":")
            if not colon or not TOKEN.fullmatch(name):
                raise BadRequest(400, "a header line is malformed")
            if NO_VALUE.search(value):
                raise BadRequest(400, "a header line has a control character")
            key = name.decode().lower()
            text = value.strip(b" \t").decode("latin-1")
            if key == "content-length" and headers.get(key, text) != text:
                raise BadRequest(400, "two Content-Length headers that differ")
            if key == "host" and key in headers:
                raise BadRequest(400, "two Host headers")               # RFC 9112 §3.2
            headers[key] = text
        version_minor = int(match[3])
        if version_minor and "host" not in headers:
            raise BadRequest(400, "HTTP/1.1 needs a Host header")      # RFC 9112 §3.2
        path, query = self._target(match[2].decode("ascii"))
        connection = [word.strip(" \t") for word in headers.get("connection", "").lower().split(",")]
        self.head = (
            Request(self.method, path, query, b"",
                    "close" not in connection and (version_minor > 0 or "keep-alive" in connection)),
            self._body_length(match[1], headers))
        self.wants_continue = headers.get("expect", "").lower() == "100-continue"
        return True

    @staticmethod
    def _target(text):
        """Returns path and query of a request target. Python's parsers raise ValueError for a malformed host, and for
        too many fields."""
        try:
            target = urllib.parse.urlsplit(text)
            return target.path, dict(urllib.parse.parse_qsl(target.query, keep_blank_values=True,
                                                            max_num_fields=FIELDS_MAX))
        except ValueError as error:
            raise BadRequest(400, "the request target is malformed") from error

    @staticmethod
    def _body_length(method, headers):
        if "transfer-encoding" in headers:
            raise BadRequest(411, "a body needs Content-Length here")
        text = headers.get("content-length")
        if text is None:
            if method == b"POST":
                raise BadRequest(411, "a POST needs Content-Length")
            return 0
        if not re.fullmatch(r"[0-9]{1,18}", text):
            raise BadRequest(400, "Content-Length is no number")
        if int(text) > BODY_BYTES_MAX:
            raise BadRequest(413, "the body is too long")
        return int(text)


def response(status, body, content_type="text/plain", keep_alive=True, method="GET", more=""):
    """Returns a response's bytes, for HEAD without the body (RFC 9110 §9.3.2). `more`: further header lines."""
    data = body if isinstance(body, bytes) else body.encode()
    head = (f"HTTP/1.1 {status} {REASONS[status]}\r\nServer: Most\r\nContent-Type: {content_type}\r\n"
            f"Content-Length: {len(data)}\r\n{more}{'' if keep_alive else 'Connection: close' + chr(13) + chr(10)}\r\n")
    return head.encode() + (b"" if method == "HEAD" else data)
