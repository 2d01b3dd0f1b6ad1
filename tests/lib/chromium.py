"""Chromium for the tests of live pages (tools/servers/web), on a wall and on a phone. Screenshots go
to build/board/."""
import select
import socket
import threading

import pytest

from tests.lib.paths import BUILD
from tests.lib.waiting import PATIENCE_S, wait_for

SHOTS = BUILD / "board"
WALL, PHONE = (1920, 1080), (390, 844)
LOOKS = pytest.mark.parametrize("size, theme", [(WALL, "dark"), (WALL, "light"), (PHONE, "dark"), (PHONE, "light")])

# Elements that cut their text: sideways, or in a box that does not scroll. The board's digits are meant to be cut.
CUT = """return [...document.querySelectorAll('body *')].filter(e => {
    if (e.closest('#digits, code, #live, [hidden]') || !e.textContent.trim() || e.closest('svg')) return false;
    const style = getComputedStyle(e), box = e.getBoundingClientRect();
    const card = e.closest('section')?.getBoundingClientRect();
    if (!box.width) return false;
    return style.overflowX !== 'visible' && e.scrollWidth > e.clientWidth
        || style.overflowY === 'hidden' && e.scrollHeight > e.clientHeight + 1
        || card && (box.right > card.right + 1 || box.left < card.left - 1);
}).map(e => `${e.tagName} ${e.className} ${e.textContent.slice(0, 40)} ${e.scrollWidth}/${e.clientWidth}`)"""


@pytest.fixture(scope="module")
def browser():
    webdriver = pytest.importorskip("selenium.webdriver", reason="no selenium")
    from selenium.webdriver.chrome.service import Service
    options = webdriver.ChromeOptions()
    options.binary_location = "/usr/bin/chromium"
    for word in ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--force-color-profile=srgb",
                 "--disable-dev-shm-usage", "--proxy-server=direct://"):
        options.add_argument(word)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(service=Service("/usr/bin/chromedriver"), options=options)
    driver.set_script_timeout(PATIENCE_S)
    yield driver
    driver.quit()


def value(driver, script, *arguments):
    return driver.execute_script(f"return {script}", *arguments)


def resize(driver, size):
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                           {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": size[0] < 700})


def open_page(driver, address, size=WALL, theme="dark", label="live"):
    """Opens a page, and waits until its label says so."""
    driver.get_log("browser")
    resize(driver, size)
    driver.get(f"{address}?theme={theme}")
    wait_for(lambda: value(driver, "document.getElementById('live').textContent") == label)


def complaints(driver):
    return [entry for entry in driver.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]


def check_page(driver, size, name):
    """Checks that a page fits its screen, cuts no text, did not complain, and loaded nothing from another server."""
    assert value(driver, "document.documentElement.scrollWidth") <= size[0], "the page is wider than the screen"
    height = value(driver, "document.documentElement.scrollHeight")
    if size == WALL:
        assert height <= size[1]
    else:
        resize(driver, (size[0], height))
    SHOTS.mkdir(parents=True, exist_ok=True)
    driver.save_screenshot(str(SHOTS / f"{name}.png"))
    assert not (cut := driver.execute_script(CUT)), cut
    assert value(driver, "performance.getEntriesByType('resource').every(e => e.name.startsWith(location.origin))")
    assert not (found := complaints(driver)), found


class SilentProxy:
    """Passes connections on to a page's server. After `swallow` the open ones stay open, and pass nothing."""

    def __init__(self, address):
        host, port = address.split("/")[2].split(":")
        self.server = (host, int(port))
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "http://127.0.0.1:%d/" % self.listener.getsockname()[1]
        self.partners = {}                  # socket -> where its bytes go
        self.swallowed = []
        self.wake, self.waker = socket.socketpair()
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.waker.sendall(b"end")
        self.thread.join()
        for sock in (*self.partners, *self.swallowed, self.listener, self.wake, self.waker):
            sock.close()

    def swallow(self):
        self.waker.sendall(b"swallow")

    def _run(self):
        while True:
            for sock in select.select([self.listener, self.wake, *self.partners], [], [])[0]:
                if sock is self.wake:
                    if sock.recv(16) == b"end":
                        return
                    self.swallowed += self.partners
                    self.partners.clear()
                elif sock is self.listener:
                    client, server = sock.accept()[0], socket.create_connection(self.server)
                    self.partners.update({client: server, server: client})
                elif sock in self.partners:
                    self._pass_on(sock)

    def _pass_on(self, sock):
        other = self.partners[sock]
        try:
            data = sock.recv(65536)
            other.sendall(data)
        except OSError:
            data = b""
        if not data:
            for end in (sock, other):
                del self.partners[end]
                end.close()


def check_silent_stream(driver, address, grows="view.news"):
    """Checks that a page whose connections fall silent says so, and follows by new ones: this value grows."""
    with SilentProxy(address) as proxy:
        open_page(driver, proxy.address)
        for _ in range(2):
            proxy.swallow()
            wait_for(lambda: value(driver, "document.getElementById('live').textContent") == "no contact")
            before = value(driver, grows)
            wait_for(lambda: value(driver, "document.getElementById('live').textContent") == "live")
            wait_for(lambda: value(driver, grows) > before + 1)


def check_fault_is_shown(driver):
    """Checks that a page says so while a part of it fails or the server answers none of its questions, and goes on."""
    shown = "(document.getElementById('fault').hidden ? '' : document.getElementById('fault').textContent)"
    driver.execute_script("""window.fails = true;
        page.parts.unshift(function drawNothing() { if (window.fails) throw new Error('as asked'); });""")
    wait_for(lambda: "drawNothing: Error: as asked" in value(driver, shown))
    news = value(driver, "view.news")
    wait_for(lambda: value(driver, "view.news") > news)
    driver.execute_script("window.fails = false")
    wait_for(lambda: value(driver, shown) == "")
    driver.execute_script("page.parts.shift(); setTimeout(rowOf, 0, 'tr')")      # without its cells
    wait_for(lambda: "script: Uncaught TypeError" in value(driver, shown))
    complaints(driver)
