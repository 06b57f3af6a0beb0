"""The page as the program gives it, and in Chromium against the program with a model: chat, stop, dashboard, no jobs."""
import re
import sys
import threading
from pathlib import Path

import pytest
from playwright.sync_api import expect

sys.path.append(str(Path(__file__).resolve().parent.parent / "server"))

from server import Server, needs_smollm2  # noqa: E402

WEB = Path(__file__).resolve().parent.parent.parent / "web"
pytestmark = needs_smollm2


@pytest.fixture(scope="module")
def server():
    with Server("--api-key", "secret") as s:
        yield s


def test_every_file_is_given_with_its_type_and_policy(server):
    types = {".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8",
             ".svg": "image/svg+xml"}
    for file in WEB.iterdir():
        r = server.get(f"/web/{file.name}")
        assert (r.status, r.body, r.headers["Content-Type"]) == (200, file.read_bytes(), types[file.suffix]), file.name
        assert r.headers["Content-Security-Policy"].startswith("default-src 'none'; script-src 'self';")
        assert r.headers["X-Content-Type-Options"] == "nosniff" and r.headers["Referrer-Policy"] == "no-referrer"
        assert r.headers["Cache-Control"] == "no-cache"
    assert server.get("/").body == (WEB / "index.html").read_bytes()


def test_a_known_file_is_not_sent_again(server):
    r = server.get("/web/main.js")
    again = server.get("/web/main.js", headers={"If-None-Match": f'W/"other", {r.headers["ETag"]}'})
    assert (again.status, again.body, again.headers["ETag"]) == (304, b"", r.headers["ETag"])
    assert server.get("/web/main.js", headers={"If-None-Match": '"other"'}).status == 200
    assert server.request("HEAD", "/web/main.js").body == b""


@pytest.mark.parametrize("path", ["/web/", "/web/none.js", "/web/..%2fREADME.md", "/web/%2e%2e/README.md", "/web/main.js/x", "/web/Main.js"])
def test_nothing_else_is_given(server, path):
    assert server.get(path).status == 404


@pytest.fixture
def page(open_page, server):
    """The page of the program, with its key, and answers that are always the same."""
    page = open_page(server.url)
    page.evaluate("""localStorage.setItem("millrace.key", "secret");
        localStorage.setItem("millrace.settings", JSON.stringify({temperature: 0, max_tokens: 24}))""")
    page.watched.console.clear()
    page.reload()
    expect(page.locator("#status")).to_have_text("SmolLM2-135M-Instruct.Q4_1")
    page.watched.console.clear()  # of the first visit, without the key
    return page


def say(page, text):
    page.locator("#prompt").fill(text)
    page.locator("#prompt").press("Enter")


def done(page):
    expect(page.locator("#send")).to_have_text("Send")


def metric(server, name):
    """The sum of a family's samples."""
    text = server.get("/metrics", headers={"Authorization": "Bearer secret"}).body.decode()
    return sum(float(value) for value in re.findall(rf"^{name}(?:{{[^\n]*}})? (\S+)$", text, re.M))


def test_a_chat_to_its_end(page, server):
    say(page, "What is the capital of France?")
    done(page)
    expect(page.locator(".assistant")).to_contain_text("Paris")
    expect(page.locator(".assistant .meta")).to_contain_text(re.compile(r"^\d+ tokens · [\d.]+ tokens/s · first token after"))
    expect(page.locator("#context")).to_contain_text(re.compile(r"^\d+ of 2048 tokens$"))
    say(page, "And of Italy?")
    done(page)
    expect(page.locator(".assistant .meta").nth(1)).to_contain_text("tokens/s")
    page.watched.check()


def test_retry_and_edit(page, server):
    say(page, "What is the capital of France?")
    done(page)
    first = page.locator(".assistant .markdown").last.inner_text()
    page.get_by_role("button", name="Answer again").click()
    done(page)
    assert page.locator(".assistant .markdown").last.inner_text() == first  # greedy: the same tokens
    page.get_by_role("button", name="Edit and send again").click()
    page.get_by_role("textbox", name="Edit message").fill("What is the capital of Italy?")
    page.keyboard.press("Enter")
    done(page)
    expect(page.locator(".user .text")).to_have_text("What is the capital of Italy?")
    body = {"messages": [{"role": "user", "content": "What is the capital of Italy?"}], "temperature": 0, "max_tokens": 24}
    alone = server.post("/v1/chat/completions", body, headers={"Authorization": "Bearer secret"}).json()
    assert page.locator(".assistant .markdown").last.inner_text() == alone["choices"][0]["message"]["content"]
    page.watched.check()


def test_stop_ends_the_request_on_the_server(page, server):
    page.evaluate("localStorage.setItem('millrace.settings', JSON.stringify({temperature: 0.5, max_tokens: 1900, stop: []}))")
    page.reload()
    ended = metric(server, "millrace_requests_total")
    say(page, "Write a very long story about a river, with as many words as you can.")
    expect(page.locator(".assistant .markdown").last).not_to_be_empty()
    page.keyboard.press("Escape")
    expect(page.locator(".assistant .meta")).to_contain_text("stopped")
    server.wait_until(lambda: metric(server, "millrace_requests_running") == 0)
    server.wait_until(lambda: metric(server, "millrace_requests_total") == ended + 1)
    page.watched.check()


def test_an_error_names_the_field(page, server):
    page.evaluate("localStorage.setItem('millrace.settings', JSON.stringify({stop: Array(1000).fill('x').map((x, i) => x + i)}))")
    page.reload()
    say(page, "Hello")
    expect(page.get_by_role("alert")).to_contain_text("stop")
    page.watched.check(["Failed to load resource"])


def test_the_dashboard_moves_under_load(page, server):
    body = {"messages": [{"role": "user", "content": "Tell a story about a mill."}], "max_tokens": 60, "ignore_eos": True}
    seen = threading.Event()
    answers = []

    def ask():
        while not seen.is_set():
            answers.append(server.post("/v1/chat/completions", body, headers={"Authorization": "Bearer secret"}).status)

    users = [threading.Thread(target=ask) for _ in range(6)]
    page.get_by_role("link", name="Dashboard").click()
    strong = {name: page.locator(".tile", has_text=name).locator("strong") for name in ("Tokens a second", "First token", "Between tokens",
                                                                                     "Running", "Requests")}
    expect(strong["Running"]).to_have_text("0")
    before = int(strong["Requests"].inner_text())
    for user in users:
        user.start()
    expect(strong["Running"]).to_have_text(re.compile("^[1-6]$"))
    expect(page.locator(".slots .busy").first).to_be_visible()
    expect(strong["Tokens a second"]).to_have_text(re.compile("^[1-9]"))
    expect(strong["Between tokens"]).to_have_text(re.compile("s$"))
    seen.set()
    for user in users:
        user.join()
    assert set(answers) == {200}
    expect(strong["Requests"]).to_have_text(str(before + len(answers)))
    expect(strong["Running"]).to_have_text("0")
    expect(strong["First token"]).to_have_text(re.compile("s$"))
    shares = page.get_by_role("img", name="Here: receive").get_attribute("aria-label")
    assert 99 < sum(map(float, re.findall(r"([\d.]+) %", shares))) < 101
    page.watched.check()


def test_a_server_without_a_folder_says_that_it_keeps_no_jobs(page, server):
    page.get_by_role("link", name="Jobs").click()
    expect(page.get_by_text("This server keeps no jobs: it was started without --state-dir DIR")).to_be_visible()
    expect(page.locator(".upload")).to_be_hidden()
    page.watched.check(["Failed to load resource"])
