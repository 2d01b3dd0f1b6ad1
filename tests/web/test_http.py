"""tools/servers/web/http.py: any bytes, in any pieces, make requests or BadRequest, and no other exception."""
import time

import hypothesis
from hypothesis import strategies

from servers.web import http

VALID = (b"POST /submit?user=a&passwd=%41+ HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 2\r\n\r\n12",
         b"GET http://[::1]:80/board.txt?a=b#c HTTP/1.0\r\nExpect: 100-continue\r\n\r\n")
PIECES = (b"GET ", b"POST ", b" HTTP/1.1\r\n", b"\r\n", b"\r\n\r\n", b"Host: x\r\n", b"Content-Length: ", b"9",
          b"-", b" ", b"Transfer-Encoding: chunked\r\n",
          b"//", b"[", b"]", b"@", b":", b"%", b"%zz", b"?", b"#", b"&", b"=", b";", b"\x00", b"\xb2", b"\xff")
REPEATABLE = hypothesis.settings(derandomize=True, database=None, deadline=None, max_examples=200)


def parse(pieces):
    """Returns the requests in these pieces, and the status if one was refused."""
    parser, requests = http.RequestParser(), []
    try:
        for piece in pieces:
            parser.feed(piece)
            while request := parser.next_request():
                requests.append(request)
    except http.BadRequest as error:
        assert error.status in http.REASONS and str(error)
        return requests, error.status
    return requests, None


def test_the_connection_ends_as_the_request_says():
    for minor, options, keep in ((1, b"", True), (1, b"Close", False), (1, b"TE , close", False), (0, b"", False),
                                 (1, b"closed", True), (0, b"Keep-Alive", True), (0, b"keep-alive, close", False)):
        requests, status = parse([b"GET / HTTP/1.%d\r\nHost: x\r\nConnection: %s\r\n\r\n" % (minor, options)])
        assert status is None and requests[0].keep_alive == keep, options


def test_no_head_takes_long():
    """The contest's server reads in the thread that plays."""
    target, begun_s = b"GET /?%s HTTP/1.0\r\n\r\n", time.process_time()
    assert len(parse([b"\r\n" * 3_000_000, target % (b"&%4" * 30)])[0]) == 1
    assert parse([target % (b"&%4" * 2600)]) == ([], 400)
    assert time.process_time() - begun_s < 0.4


def test_every_byte_may_be_any_other():
    for valid in VALID:
        assert len(parse([valid])[0]) == 1
        for i in range(len(valid)):
            for byte in range(256):
                parse([valid[:i] + bytes([byte]) + valid[i + 1:]])
                parse([valid[:i] + bytes([byte]) + valid[i:]])
            parse([valid[:i] + valid[i + 1:]])


@REPEATABLE
@hypothesis.given(strategies.lists(strategies.one_of(strategies.sampled_from(PIECES), strategies.binary(max_size=20)),
                                   max_size=30))
def test_any_bytes_parse_the_same_in_any_pieces(pieces):
    whole = parse([b"".join(pieces)])
    assert parse(pieces) == whole
    assert parse([bytes([byte]) for byte in b"".join(pieces)]) == whole


@REPEATABLE
@hypothesis.given(strategies.sampled_from((b"", b"/", b"//", b"http://")),
                  strategies.lists(strategies.sampled_from(b"[]@:%?#&=;/.az09\x00\xb2\xff "), max_size=6))
def test_any_target_is_taken_or_refused(start, rest):
    requests, status = parse([b"GET " + start + bytes(rest) + b" HTTP/1.1\r\nHost: x\r\n\r\n"])
    assert len(requests) == 1 and status is None or status == 400
