"""The page as the program gives it, and in Chromium against the program with a model: chat, stop, dashboard."""
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
