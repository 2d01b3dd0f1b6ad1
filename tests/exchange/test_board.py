"""The live page of the exchange in Chromium: books, trades and an account's position, on a wall and on a phone.

Screenshots go to build/board/."""
import json
import urllib.request

import pytest

from tests.exchange.running import WAIT_S, Lines, Running, Soup
from tests.exchange.test_orders import enter
from tests.lib import chromium
from tests.lib.chromium import (LOOKS, PHONE, WALL, check_fault_is_shown, check_page, check_silent_stream, open_page,
                                value)
from tests.lib.waiting import wait_for

pytestmark = pytest.mark.slow
browser = chromium.browser          # the fixture


@pytest.fixture(scope="module", name="exchange")
def play():
    """Runs an exchange where one account has bought and has an order in the book; returns the page's address."""
    lines = Lines()
    exchange = Running(lines, "--rate", 200, "--preopen", 0, "--board", "127.0.0.1:0", "--halt", "DUNE@3+3600")
    lines.read(lambda: len(lines.a) > 200)
    soup = Soup(exchange.addresses["orders"])
    soup.send("U", enter(1, "B", 100, 1_999_999_900, time_in_force="3"))
    soup.send("U", enter(2, "B", 700, 10_000))
    while soup.message()[:1] != b"E":
        pass
    yield "http://%s:%d/" % exchange.addresses["board"]
    exchange.close()
    lines.close()


@LOOKS
def test_the_page_shows_books_trades_and_the_account(browser, exchange, size, theme):
    open_page(browser, exchange, size, theme)
    wait_for(lambda: value(browser, "document.querySelectorAll('#prints li').length") >= 10)
    wait_for(lambda: value(browser, "document.querySelectorAll('#plot-profit canvas').length") > 0)
    news = value(browser, "view.news")
    wait_for(lambda: value(browser, "view.news") > news)
    check_page(browser, size, f"exchange-{size[0]}x{size[1]}-{theme}")
    rows = value(browser, "document.getElementById('rows').innerText")
    assert "TRADER" in rows and "ACME" in rows and "100" in rows
    assert value(browser, "document.querySelectorAll('#levels td.bid')[0].textContent") != ""


@pytest.mark.parametrize("size", [WALL, (1280, 900), (1100, 900), PHONE])
def test_no_number_of_an_account_is_cut(browser, exchange, size):
    open_page(browser, exchange, size)
    browser.execute_script("""page.parts = [state => {
        const big = {...state.accounts[0], user: 'TRADER', connected: false, profit: -12345678900, open: 32,
                     counts: {enter: 123456}, us: [12345, 123456], positions: {ACME: [-100000, -1234567800]}};
        drawAccounts({...state, accounts: [big]});
    }];""")
    wait_for(lambda: "1234567.89" in value(browser, "document.getElementById('rows').innerText"))
    check_page(browser, size, f"account-{size[0]}")


def test_a_click_chooses_the_stock_and_a_halt_is_shown(browser, exchange):
    open_page(browser, exchange)
    wait_for(lambda: value(browser, "document.querySelectorAll('#symbols button').length") == 4)
    browser.execute_script("document.querySelectorAll('#symbols button')[3].click()")
    wait_for(lambda: value(browser, "document.getElementById('about-book').textContent").endswith("halted"))
    assert value(browser, "document.querySelectorAll('#symbols button')[3].getAttribute('aria-pressed')") == "true"


def test_the_state_is_there_as_json(exchange):
    with urllib.request.urlopen(exchange + "board.json", timeout=WAIT_S) as answer:
        state = json.load(answer)
    account = state["accounts"][0]
    assert account["positions"]["ACME"][0] == 100 and account["orders"] == [["ACME", "B", 700, 10_000]]
    assert account["us"][0] > 0 and account["connected"]
    for book in state["books"]:
        assert book["bids"] == sorted(book["bids"], reverse=True) and book["offers"] == sorted(book["offers"])


def test_a_page_whose_events_fall_silent_follows_again(browser, exchange):
    check_silent_stream(browser, exchange)


def test_a_fault_of_the_page_is_shown(browser, exchange):
    open_page(browser, exchange)
    check_fault_is_shown(browser)
