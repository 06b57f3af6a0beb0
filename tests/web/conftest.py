"""A Chromium without a window, pages that remember what went wrong in them, and the server that misbehaves on request."""
import shutil

import pytest

pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
from playwright.sync_api import expect, sync_playwright  # noqa: E402

from fake_server import FakeServer  # noqa: E402

expect.set_options(timeout=60_000)  # a busy machine, not a measure
CHROMIUM = shutil.which("chromium")
# Before any script of the page: what the policy forbade, and animations that would keep the processor busy.
WATCH = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (e) => window.violations.push(`${e.violatedDirective} ${e.blockedURI}`));
"""


class Watched:
    """What a page's console said, and its errors."""

    def __init__(self, page):
        self.page, self.console, self.errors = page, [], []
        page.on("console", self.hear)
        page.on("pageerror", self.fail)

    def hear(self, message):
        if message.type in ("error", "warning"):
            self.console.append(f"{message.type}: {message.text}")

    def fail(self, error):
        self.errors.append(str(error))

    def forget(self):
        self.page.remove_listener("console", self.hear)
        self.page.remove_listener("pageerror", self.fail)

    def check(self, expected=()):
        """expected: parts of console lines that a test provokes, as a browser tells of each failed request."""
        unexpected = [line for line in self.console if not any(part in line for part in expected)]
        assert not unexpected and not self.errors
        assert self.page.evaluate("window.violations") == []


@pytest.fixture(scope="session")
def browser():
    if CHROMIUM is None:
        pytest.skip("chromium is not installed")
    with sync_playwright() as p:
        browser = p.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-dev-shm-usage"])
        yield browser
        browser.close()


def new_page(browser, **options):
    context = browser.new_context(**{"viewport": {"width": 1100, "height": 700}, **options})
    context.add_init_script(WATCH)
    context.set_default_timeout(60_000)
    return context.new_page()


@pytest.fixture(scope="session")
def plain_page(browser):
    return new_page(browser)


@pytest.fixture
def open_page(browser, plain_page):
    """open_page(url, **context options) -> page with empty storage, whose .watched is checked by the test. Without options it is the
    same page for all tests: a new one takes a second."""
    used = []

    def make(url, **options):
        page = new_page(browser, **options) if options else plain_page
        if not options and page.url.startswith("http"):
            page.evaluate("localStorage.clear(); sessionStorage.clear()")
            page.goto("about:blank")
        page.watched = Watched(page)
        used.append((page, bool(options)))
        page.goto(url)
        return page

    yield make
    for page, is_own in used:
        page.watched.forget()
        if is_own:
            page.context.close()


@pytest.fixture(scope="session")
def fake():
    server = FakeServer().start()
    yield server
    server.shutdown()
