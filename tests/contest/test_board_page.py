"""The board's page in Chromium: live, with 100 players, after a restart, on a wall and on a phone.

Screenshots go to build/board/."""
import json
import socket
import subprocess
import time
import urllib.request

import pytest

from tests.contest import finished
from tests.contest.plain_player import post, read_reply
from tests.contest.running import tool
from tests.contest.service import TOOL, Service, beside
from tests.e2e.test_page import check_by_promtool
from tests.hosted.test_monitoring import DASHBOARDS, expressions, series_named
from tests.lib import chromium
from tests.lib.chromium import (LOOKS, PHONE, WALL, check_fault_is_shown, check_page, check_silent_stream, complaints,
                                open_page, resize, value)
from tests.lib.waiting import PATIENCE_S, wait_for

pytestmark = pytest.mark.slow
browser = chromium.browser          # the fixture


@pytest.fixture(scope="module")
def game(tmp_path_factory):
    """Starts a service with 100 players, which the tests may kill and start again: [service, crowd]."""
    path = tmp_path_factory.mktemp("board") / "store"
    assert tool("init", path, "--name", "Spring Cup", "--rate", "3", "--phase", "0-2=2").returncode == 0
    service = Service(path, "--begin", "player")
    crowd = beside("crowd", service, "--players", 100, "--seconds", 900, "--rate", 3)
    assert crowd.stdout.readline() == "ready\n"
    running = [service, crowd]
    yield running
    running[1].terminate()
    running[1].wait(PATIENCE_S)
    running[0].__exit__()


def open_board(driver, service, size=WALL, theme="dark"):
    open_page(driver, service.board, size, theme)
    wait_for(lambda: value(driver, "document.querySelectorAll('#rows tr').length") >= 100)
    wait_for(lambda: value(driver, "document.querySelectorAll('#plot-points .end').length") > 0)


@LOOKS
def test_the_page_is_whole_and_moves_nothing(browser, game, size, theme):
    open_board(browser, game[0], size, theme)
    browser.execute_script("window.shift = 0; window.moved = []; "
                           "new PerformanceObserver(list => list.getEntries().forEach(e => { window.shift += e.value; "
                           "window.moved.push(...e.sources.map(s => s.node?.outerHTML?.slice(0, 80))); "
                           "})).observe({type: 'layout-shift', buffered: true})")
    wait_for(lambda: value(browser, "document.querySelectorAll('#answers li').length") >= 10)
    time.sleep(2)
    assert value(browser, "window.shift") < 0.01, value(browser, "window.moved")
    drawn = "[...document.querySelectorAll('canvas')].every(c => c.width > 50 && c.getContext('2d')" \
            ".getImageData(0, 0, c.width, c.height).data.some(v => v))"
    assert value(browser, drawn) or value(browser, "document.querySelectorAll('canvas').length") > 3
    check_page(browser, size, f"{size[0]}x{size[1]}-{theme}")


@LOOKS
def test_the_header_keeps_its_height_when_a_phase_ends(browser, game, size, theme):
    open_board(browser, game[0], size, theme)
    heights = browser.execute_script("""
        const phase = document.getElementById("phase"), header = document.querySelector("header");
        return [false, true].map(hidden => (phase.hidden = hidden, header.getBoundingClientRect().height))""")
    assert heights[0] == heights[1]


@pytest.fixture(scope="module")
def over(tmp_path_factory):
    """Serves the board of a contest that is over; returns its address."""
    path = tmp_path_factory.mktemp("over") / "store"
    finished.make(path)
    process = subprocess.Popen([TOOL, "board", path, "--bind", "127.0.0.1", "--port", "0"], stdout=subprocess.PIPE,
                               text=True)
    yield process.stdout.readline().split()[1]
    process.terminate()
    process.communicate(timeout=PATIENCE_S)


@LOOKS
def test_no_text_is_cut_on_the_board_of_a_contest_that_is_over(browser, over, size, theme):
    open_page(browser, over, size, theme, "final")
    wait_for(lambda: value(browser, "document.querySelectorAll('#plot-points .end').length") == len(finished.NAMES))
    wait_for(lambda: value(browser, "document.querySelectorAll('#plot-latency .end').length") == 4)
    time.sleep(0.5)
    check_page(browser, size, f"over-{size[0]}x{size[1]}-{theme}")
    text = value(browser, "document.getElementById('rows').innerText")
    assert "412 345" in text and "−123 456" in text and "W" * 32 in text
    assert value(browser, "document.getElementById('clock').textContent") == "over"
    assert value(browser, "document.querySelectorAll('#answers li')[0].querySelectorAll('.offsets span').length") == 2
    # The smallest bar is seen, and the stop parts the lines.
    assert value(browser, "charts['plot-medians'].scales.y.min * 1.4 < "
                          "Math.min(...view.state.medians.flatMap(([, values]) => values))")
    assert value(browser, "charts['plot-points'].rawData_.some(row => row.slice(1).every(Number.isNaN))")
    for link in value(browser, "[...document.links].filter(a => a.offsetWidth).map(a => a.href)"):
        with urllib.request.urlopen(link, timeout=PATIENCE_S) as response:
            assert response.status == 200


def test_pictures_that_cannot_be_made_have_no_links(browser, over):
    open_page(browser, over, label="final")
    assert value(browser, "(() => { drawHeader({...view.state, pictures: false}); "
                          "return [...document.links].filter(a => a.offsetWidth).map(a => a.textContent); })()") == \
        ["rules", "board.txt", "board.json"]


def test_an_answer_is_on_the_page_within_a_second(browser, game):
    open_board(browser, game[0])
    late_s = []
    for _ in range(5):
        # The time from the last submission of the newest answer to its change on the page, by the machine's clock.
        ns, seen_ms = browser.execute_async_script("""
            const done = arguments[0], list = document.getElementById('answers');
            const watch = new MutationObserver(() => {
                watch.disconnect(); done([view.state.recent[0].ns, Date.now()]);
            });
            watch.observe(list.firstChild, {attributes: true, attributeFilter: ['data-key']});""")
        late_s.append(seen_ms / 1000 - int(ns) / 1e9)
    assert sorted(late_s)[2] < 1, late_s


def test_a_slow_page_does_not_fall_behind(browser, game):
    open_board(browser, game[0])
    behind_ms = browser.execute_async_script("""
        const done = arguments[0], end = Date.now() + 12000;
        page.parts.push(function slow() {
            for (const until = Date.now() + 900; Date.now() < until;);
            if (Date.now() > end) { page.parts.pop(); done(Date.now() - view.state.now_ns / 1e6); }
        });""")
    assert behind_ms < 5000


def test_any_number_of_tabs_follow(browser, over):
    """A browser allows six connections to a host. Every tab has the state, and its requests are answered."""
    first = browser.current_window_handle
    resize(browser, PHONE)
    browser.get(over)
    try:
        for _ in range(8):
            browser.switch_to.new_window("tab")
            browser.get(over)
            wait_for(lambda: value(browser, "document.querySelectorAll('#rows tr').length") == len(finished.NAMES))
            wait_for(lambda: value(browser, "document.getElementById('live').classList.contains('on')"))
        asked = "const done = arguments[0]; fetch('board.txt').then(answer => done(answer.status))"
        for handle in browser.window_handles:
            browser.switch_to.window(handle)
            assert browser.execute_async_script(asked) == 200
    finally:
        for handle in browser.window_handles:
            browser.switch_to.window(handle)
            if handle != first:
                browser.close()
        browser.switch_to.window(first)


@pytest.mark.parametrize("has_worker", [True, False])
def test_a_page_whose_events_fall_silent_follows_again(browser, game, has_worker):
    script = browser.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument",
                                     {"source": "" if has_worker else "delete window.SharedWorker"})
    try:
        check_silent_stream(browser, game[0].board, "(view.series.all?.times.length || 0)")
    finally:
        browser.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", script)


def test_a_fault_of_the_page_is_shown(browser, game):
    open_board(browser, game[0])
    check_fault_is_shown(browser)
    browser.execute_script("window.fetch = async () => ({ok: false}); setFault('script', null)")
    wait_for(lambda: value(browser, "document.getElementById('fault').textContent").endswith("series.json: no answer"))
    assert value(browser, "document.getElementById('fault').hidden") is False


def test_names_that_mean_something_to_javascript_are_names(browser, tmp_path):
    names = ["constructor", "__proto__", "toString", "42", "s", "y"]
    assert tool("init", tmp_path / "store", "--rate", "3").returncode == 0
    with Service(tmp_path / "store", "--begin", "player") as service:
        crowd = beside("crowd", service, "--players", 2, "--seconds", 900, "--rate", 3)
        assert crowd.stdout.readline() == "ready\n"
        open_page(browser, service.board)
        wait_for(lambda: value(browser, "document.querySelectorAll('#plot-points .end').length") == 2)
        for name in names:
            with socket.create_connection(("127.0.0.1", service.ports["output"]), PATIENCE_S) as sock:
                sock.sendall(post("1", name))
                read_reply(sock.makefile("rb"))
        ends = "[...document.querySelectorAll('#plot-points .end')].map(end => end.textContent)"
        wait_for(lambda: sorted(value(browser, ends)) == sorted([*names, "swift", "heron"]))
        times = value(browser, "view.series.all.times.length")
        wait_for(lambda: value(browser, "view.series.all.times.length") > times + 2)
        for chart in ("plot-distribution", "plot-medians"):
            assert value(browser, f"charts['{chart}'].data.datasets.map(line => line.label)") == \
                value(browser, "view.state.users.map(user => user.name)")
        assert value(browser, "document.getElementById('fault').hidden") and not complaints(browser)
        crowd.terminate()
        crowd.wait(PATIENCE_S)


def test_a_board_without_news_keeps_contact(browser, over):
    open_page(browser, over, label="final")
    news = value(browser, "view.news")
    time.sleep(20)              # longer than a page waits for anything of its stream
    assert value(browser, "document.getElementById('live').textContent") == "final", value(browser, "view.news") - news


def test_a_browser_without_shared_workers_follows_in_visible_tabs(browser, game):
    script = browser.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": "delete window.SharedWorker"})
    try:
        open_board(browser, game[0])
        before = value(browser, "view.state.now_ns")
        wait_for(lambda: value(browser, "view.state.now_ns") != before)
        browser.execute_script("Object.defineProperty(document, 'hidden', {value: true, configurable: true});"
                               "document.dispatchEvent(new Event('visibilitychange'))")
        time.sleep(0.5)
        before = value(browser, "view.state.now_ns")
        time.sleep(1)
        assert value(browser, "view.state.now_ns") == before
        browser.execute_script("delete document.hidden; document.dispatchEvent(new Event('visibilitychange'))")
        wait_for(lambda: value(browser, "view.state.now_ns") != before)
    finally:
        browser.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", script)


def test_keys_choose_player_span_and_theme(browser, game):
    from selenium.webdriver.common.keys import Keys
    open_board(browser, game[0])
    body = browser.find_element("tag name", "body")
    browser.execute_script("select(view.state.users[0].name)")      # the last player would have none below
    first = value(browser, "view.player")
    body.send_keys(Keys.ARROW_DOWN)
    second = value(browser, "view.player")
    assert second != first and value(browser, "document.activeElement.dataset.name") == second
    assert value(browser, "document.getElementById('who').textContent") == second
    body.send_keys("h")
    assert value(browser, "document.querySelector('[data-span=hour]').getAttribute('aria-pressed')") == "true"
    body.send_keys("t")
    assert value(browser, "document.documentElement.dataset.theme") == "light"
    nameless = "[...document.querySelectorAll('button, a, [tabindex=\"0\"]')].filter(e => !(e.textContent.trim() || " \
               "e.getAttribute('aria-label'))).length"
    assert value(browser, nameless) == 0


def test_the_last_hour_forgets_what_is_older(browser, game):
    open_board(browser, game[0])
    assert value(browser, '''(() => {
        const part = (from, count) => ({
            step: 5, times: [...Array(count).keys()].map(i => from + 5 * i),
            scores: new Map([['a', Array(count).fill(from)]]), latency: Array(count).fill([])});
        const hour = merge(part(0, 720), part(3600, 10), "hour"), all = merge(part(0, 720), part(3600, 10), "all");
        return [hour.times.length, hour.times[0], hour.scores.get('a').length, hour.latency.length, all.times.length];
    })()''') == [720, 50, 720, 720, 730]


def test_focus_stays_with_the_player_when_ranks_change(browser, game):
    open_board(browser, game[0])
    named = "document.activeElement.dataset.name"
    assert value(browser, f'''(() => {{
        step(1);
        const before = {named}, users = view.state.users;
        drawRanking({{...view.state, users: [...users.slice(50), ...users.slice(0, 50)]}});
        return before === view.player && {named} === view.player;
    }})()''')


def test_text_stands_out_from_its_ground(browser, game):
    """WCAG 2.1: a contrast of 4.5 for text, 3 for lines, in both themes."""
    open_board(browser, game[0])
    for theme in ("light", "dark"):
        value(browser, f"setTheme('{theme}')")
        contrast = value(browser, """["--text", "--soft", "--mark", "--warn", "--early",
            ...Array.from({length: 8}, (_, i) => `--c${i}`)].map(name => {
                const light = colour => { const [r, g, b] = [1, 3, 5].map(i => parseInt(colour.length > 4 ?
                    colour.slice(i, i + 2) : colour[(i + 1) / 2].repeat(2), 16) / 255)
                    .map(v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
                    return .2126 * r + .7152 * g + .0722 * b; };
                const [a, b] = [light(css(name)), light(css("--box"))].sort();
                return [name, (Math.max(a, b) + .05) / (Math.min(a, b) + .05)]; })""")
        for name, ratio in contrast:
            assert ratio >= (3 if name.startswith("--c") else 4.5), (theme, name, ratio)


def test_fixed_addresses(game):
    for path, kind, start in (("board.txt", "text/plain", b"N  = 256"), ("board.json", "application/json", b"{"),
                              ("metrics", "text/plain; version=0.0.4", b"# HELP contest_"),
                              ("board.png", "image/png", b"\x89PNG"), ("score.png", "image/png", b"\x89PNG"),
                              ("latency.png", "image/png", b"\x89PNG"), ("rules", "text/html", b"<!DOCTYPE")):
        with urllib.request.urlopen(game[0].board + path, timeout=PATIENCE_S) as response:
            assert response.headers["Content-Type"].startswith(kind) and response.read().startswith(start)
    with urllib.request.urlopen(game[0].board + "board.json", timeout=PATIENCE_S) as response:
        assert len(json.load(response)["users"]) == 100
    with urllib.request.urlopen(game[0].board + "metrics", timeout=PATIENCE_S) as response:
        check_by_promtool(text := response.read().decode())
    dashboard = next(path for path in DASHBOARDS if path.stem == "contest")
    assert all(name in text for name in series_named("".join(expressions(dashboard))))
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(game[0].board + "../store.py", timeout=PATIENCE_S)


def test_the_page_comes_back_after_a_kill(browser, game):
    open_board(browser, game[0])
    service = game[0]
    service.kill()
    wait_for(lambda: not value(browser, "document.getElementById('live').classList.contains('on')"))
    game[1].wait(PATIENCE_S)
    before = value(browser, "view.news")
    game[0] = Service(service.store, port_base=service.ports["pages"])
    game[1] = beside("crowd", game[0], "--players", 1, "--seconds", 30, "--rate", 3)
    wait_for(lambda: value(browser, "document.getElementById('live').classList.contains('on')"))
    wait_for(lambda: value(browser, "view.news") != before)
    assert value(browser, "document.querySelectorAll('#rows tr').length") == 100
    assert all("ERR_CONNECTION" in entry["message"] or "ERR_INCOMPLETE" in entry["message"]
               or "ERR_EMPTY" in entry["message"]
               for entry in complaints(browser))
