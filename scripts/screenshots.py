#!/usr/bin/env python3
"""Pictures of the page with a real model, for the README: docs/chat.png and docs/dashboard.png.

    make screenshots        builds, fetches the model, runs this with the Python of the tests

Needs chromium and the packages of tests/requirements.txt."""
import json
import shutil
import subprocess
import sys
import threading
import urllib.request
from pathlib import Path

from playwright.sync_api import expect, sync_playwright

ROOT = Path(__file__).resolve().parent.parent
MODEL = ROOT / "models/SmolLM2-135M-Instruct.Q4_1.gguf"
SIZE = {"width": 1200, "height": 780}
CONVERSATIONS = [["Write a short poem about a river."], ["Name three rivers of Europe."],
                 ["What is the capital of France?", "Write a Python function that says whether a number is even."]]  # the last one is shown
LOAD_S = 60
USERS = 12
PATIENCE_MS = 120_000


def start_server():
    process = subprocess.Popen([ROOT / "build/millrace", "serve", "-m", MODEL, "--alias", "SmolLM2-135M", "--port", "0", "-c", "2048",
                                "--max-batch-size", "16", "--kv-tokens", "12000"], stdout=subprocess.PIPE, text=True)
    for line in process.stdout:
        if line.startswith("listening on "):
            return process, line.split()[-1]
    sys.exit("the server did not start")


def chat(browser, url):
    page = browser.new_page(viewport=SIZE, color_scheme="light")
    page.set_default_timeout(PATIENCE_MS)
    page.goto(url)
    expect(page.locator("#status.ready")).to_be_visible(timeout=PATIENCE_MS)
    page.evaluate("""localStorage.setItem("millrace.settings", JSON.stringify({temperature: 0, max_tokens: 220}))""")
    page.reload()
    for questions in CONVERSATIONS:
        page.get_by_role("button", name="New chat").click()
        for question in questions:
            page.locator("#prompt").fill(question)
            page.keyboard.press("Enter")
            expect(page.locator("#send")).to_have_text("Send", timeout=PATIENCE_MS)
    page.locator("#scroll").evaluate("node => node.scrollTo({top: 0})")
    page.mouse.move(5, 400)
    page.wait_for_timeout(300)
    page.screenshot(path=ROOT / "docs/chat.png")


def ask(url, stop, user):
    for turn in range(1_000_000):
        if stop.is_set():
            return
        text = f"Visitor {user} asks, for the time number {turn}: tell me how a mill grinds corn, and what else water can do. " * (1 + turn % 4)
        body = {"messages": [{"role": "user", "content": text}], "max_tokens": 40 + 30 * (user % 5), "ignore_eos": True}
        request = urllib.request.Request(url + "/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
        urllib.request.urlopen(request, timeout=300).read()


def dashboard(browser, url):
    page = browser.new_page(viewport={**SIZE, "height": 900}, color_scheme="dark")
    page.goto(f"{url}/#dashboard")
    stop = threading.Event()
    users = [threading.Thread(target=ask, args=(url, stop, user)) for user in range(USERS)]
    for user in users:
        user.start()
        page.wait_for_timeout(1000 * LOAD_S / 2 / USERS)
    page.wait_for_timeout(1000 * LOAD_S / 2)
    page.screenshot(path=ROOT / "docs/dashboard.png")
    stop.set()
    for user in users:
        user.join()


def main():
    process, url = start_server()
    try:
        with sync_playwright() as p:
            browser = p.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
            chat(browser, url)
            dashboard(browser, url)
            browser.close()
    finally:
        process.terminate()
        process.wait()


if __name__ == "__main__":
    main()
