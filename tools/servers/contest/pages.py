"""The pages of a server beside which no board runs."""
from servers.contest import board_text
from servers.web import http


def page(game, connections, begun, request):
    """Returns the response to a request on the port of the pages."""
    now_ns = game.clock.now_ns()
    more = {"over": game.over, "begun": begun, "faults": game.faults,
            "record_error": game.record.error or game.store.error,
            "connections": {"open": len(connections.table), "refused": connections.refused, "idled": connections.idled}}
    pages = {
        "/": lambda: (board_text.rules_page(game.contest, connections.ports, game.plan), "text/html"),
        "/board.txt": lambda: (board_text.board_text(game.contest, now_ns, more["record_error"]), "text/plain"),
        "/board.json": lambda: (board_text.json_text(game.contest, now_ns, **more), "application/json"),
    }
    status, kind = 200, "text/plain"
    if request.method not in ("GET", "HEAD"):
        status, body = 405, "GET only\n"
    elif request.path not in pages:
        status, body = 404, "no such page\n"
    else:
        body, kind = pages[request.path]()
    return http.response(status, body, kind + "; charset=utf-8", request.keep_alive, request.method)
