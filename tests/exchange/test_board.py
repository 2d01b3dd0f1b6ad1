"""The live page of the exchange in Chromium: books, trades and an account's position, on a wall and on a phone.

Screenshots go to build/board/."""
import json
import os
import pathlib
import urllib.request

import pytest

from tests.contest.running import wait_for
from tests.exchange.running import WAIT_S, Lines, Running, Soup
from tests.exchange.test_orders import enter

pytestmark = pytest.mark.slow
webdriver = pytest.importorskip("selenium.webdriver", reason="no selenium")
ROOT = pathlib.Path(__file__).resolve().parents[2]
SHOTS = pathlib.Path(os.environ.get("BUILD", ROOT / "build")) / "board"
WALL, PHONE = (1920, 1080), (390, 844)


@pytest.fixture(scope="module", name="browser")
def open_browser():
    from selenium.webdriver.chrome.service import Service as Driver
    options = webdriver.ChromeOptions()
    options.binary_location = "/usr/bin/chromium"
    for word in ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--force-color-profile=srgb",
                 "--disable-dev-shm-usage", "--proxy-server=direct://"):
        options.add_argument(word)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(service=Driver("/usr/bin/chromedriver"), options=options)
    driver.set_script_timeout(WAIT_S)
    yield driver
    driver.quit()


@pytest.fixture(scope="module", name="exchange")
def play():
    """Runs an exchange where one account has bought and has an order in the book."""
    lines = Lines()
    exchange = Running(lines, "--rate", 200, "--preopen", 0, "--board", "127.0.0.1:0", "--halt", "DUNE@3+3600")
    lines.read(lambda: len(lines.a) > 200)
    soup = Soup(exchange.addresses["orders"])
    soup.send("U", enter(1, "B", 100, 1_999_999_900, time_in_force="3"))
    soup.send("U", enter(2, "B", 700, 10_000))
    while soup.message()[:1] != b"E":
        pass
    yield exchange
    exchange.close()
    lines.close()


def value(browser, script):
    return browser.execute_script(f"return {script}")


@pytest.mark.parametrize("size, theme", [(WALL, "dark"), (WALL, "light"), (PHONE, "dark"), (PHONE, "light")])
def test_the_page_shows_books_trades_and_the_account(browser, exchange, size, theme):
    browser.get_log("browser")
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
        "width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": size[0] < 700})
    browser.get("http://127.0.0.1:%d/?theme=%s" % (exchange.addresses["board"][1], theme))
    wait_for(lambda: value(browser, "document.querySelectorAll('#prints li').length") >= 10)
    wait_for(lambda: value(browser, "document.getElementById('live').textContent") == "live")
    wait_for(lambda: value(browser, "document.querySelectorAll('#plot-profit canvas').length") > 0)
    version = value(browser, "document.documentElement.dataset.version")
    wait_for(lambda: value(browser, "document.documentElement.dataset.version") != version)      # news come
    SHOTS.mkdir(parents=True, exist_ok=True)
    browser.save_screenshot(str(SHOTS / f"exchange-{size[0]}x{size[1]}-{theme}.png"))
    assert [entry for entry in browser.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")] == []
    rows = value(browser, "document.getElementById('rows').innerText")
    assert "TRADER" in rows and "ACME" in rows and "100" in rows
    assert value(browser, "document.querySelectorAll('#levels td.bid')[0].textContent") != ""
    assert value(browser, "document.documentElement.scrollWidth") <= size[0]
    if size == WALL:
        assert value(browser, "document.documentElement.scrollHeight") <= size[1]
    # The page loaded nothing from another server.
    assert value(browser, "performance.getEntriesByType('resource').every(e => e.name.startsWith(location.origin))")


def test_a_click_chooses_the_stock_and_a_halt_is_shown(browser, exchange):
    browser.get("http://127.0.0.1:%d/" % exchange.addresses["board"][1])
    wait_for(lambda: value(browser, "document.querySelectorAll('#symbols button').length") == 4)
    browser.execute_script("document.querySelectorAll('#symbols button')[3].click()")
    wait_for(lambda: value(browser, "document.getElementById('about-book').textContent").endswith("halted"))
    assert value(browser, "document.querySelectorAll('#symbols button')[3].getAttribute('aria-pressed')") == "true"


def test_the_state_is_there_as_json(exchange):
    with urllib.request.urlopen("http://127.0.0.1:%d/board.json" % exchange.addresses["board"][1], timeout=WAIT_S
                                ) as answer:
        state = json.load(answer)
    account = state["accounts"][0]
    assert account["positions"]["ACME"][0] == 100 and account["orders"] == [["ACME", "B", 700, 10_000]]
    assert account["us"][0] > 0 and account["connected"]
    for book in state["books"]:
        assert book["bids"] == sorted(book["bids"], reverse=True) and book["offers"] == sorted(book["offers"])
