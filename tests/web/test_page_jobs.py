"""The jobs view, against the program with a model (files sent, watched, cancelled, saved) and against answers made by the test."""
import json
import re
import sys
from pathlib import Path

import pytest
from playwright.sync_api import expect

sys.path.append(str(Path(__file__).resolve().parent.parent / "server"))

from batch_api import Client, jsonl, request, serve  # noqa: E402
from server import needs_smollm2  # noqa: E402

FAILED_REQUEST = ["Failed to load resource"]


def file(name, content):
    return {"name": name, "mimeType": "application/jsonl", "buffer": content}


def send(page, *files):
    page.get_by_label("Choose files").set_input_files(list(files))


def job(page, name):
    return page.locator(".job", has=page.get_by_role("heading", name=name, exact=True))


def state(page, name):
    return job(page, name).locator(".state")


def saved(page, button):
    """Name and lines of what a button saves."""
    with page.expect_download() as found:
        page.get_by_role("button", name=button, exact=True).click()
    return found.value.suggested_filename, [json.loads(line) for line in Path(found.value.path()).read_bytes().splitlines()]


# ---- the program ----

@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with serve(tmp_path_factory.mktemp("jobs"), "--api-key", "secret", "--batch-file-bytes", "1M") as s:
        yield s


@pytest.fixture
def page(open_page, server):
    page = open_page(server.url)
    page.evaluate("""localStorage.setItem("millrace.key", "secret"); location.hash = "#jobs" """)
    page.reload()
    expect(page.locator("#status")).to_have_class("ready")
    page.watched.console.clear()  # of the first visit, without the key
    return page


@needs_smollm2
def test_a_file_is_sent_watched_and_its_answers_saved(page, server):
    expect(page).to_have_title("Millrace – jobs")
    expect(page.get_by_text("No jobs yet.")).to_be_visible()
    send(page, file("good.jsonl", jsonl([request(i) for i in range(3)] + [request(3, temperature=-1)])))
    expect(page.locator(".upload [role=status]")).to_have_text("good.jsonl: sent")
    expect(state(page, "good.jsonl")).to_have_text("completed")
    expect(job(page, "good.jsonl")).to_contain_text(re.compile(r"4 of 4 lines, 1 failed · /v1/chat/completions · \d+ s ago, took \d+ s"))
    expect(job(page, "good.jsonl").get_by_role("button", name="Cancel")).to_be_hidden()
    name, answers = saved(page, "Download answers of good.jsonl")
    assert name == "good.answers.jsonl" and [a["custom_id"] for a in answers] == ["r0", "r1", "r2"]
    name, errors = saved(page, "Download errors of good.jsonl")
    assert name == "good.errors.jsonl" and [e["response"]["status_code"] for e in errors] == [400]
    page.watched.check()


@needs_smollm2
def test_what_is_wrong_in_a_file_is_told_by_line(page, server):
    lines = jsonl([request(0), request(0), request(1)]).splitlines(keepends=True)
    send(page, file("bad.jsonl", b"no request\n" + b"".join(lines) + b'{"custom_id": "<img src=x>"}\n'))
    expect(state(page, "bad.jsonl")).to_have_text("failed")
    faults = page.get_by_role("list", name="What is wrong in bad.jsonl").locator("li")
    expect(faults.locator("b")).to_have_text(["Line 1:", "Line 3:", "Line 5:"])
    expect(faults.nth(1)).to_contain_text("custom_id")
    assert page.locator(".job img").count() == 0
    page.watched.check()


@needs_smollm2
def test_a_job_is_cancelled(page, server):
    send(page, file("long.jsonl", jsonl([request(i, max_tokens=200, ignore_eos=True) for i in range(200)])))
    expect(state(page, "long.jsonl")).to_have_text("in progress")
    page.get_by_role("button", name="Cancel long.jsonl").press("Enter")
    expect(state(page, "long.jsonl")).to_have_text("cancelled")
    expect(page.get_by_role("heading", name="long.jsonl")).to_be_focused()
    answers = page.get_by_role("button", name="Download answers of long.jsonl")
    n = len(saved(page, "Download errors of long.jsonl")[1]) + (len(saved(page, "Download answers of long.jsonl")[1]) if answers.is_visible() else 0)
    assert n == 200
    page.watched.check()


@needs_smollm2
def test_a_file_that_is_refused_leaves_nothing(page, server):
    client = Client(server, "secret")

    def files():
        return [f["id"] for f in client.ask("GET", "/v1/files?purpose=batch").json()["data"]]

    before = files()
    send(page, file("big.jsonl", jsonl([request(0, user="x" * 1_500_000)])))
    expect(page.get_by_role("alert")).to_contain_text("big.jsonl was not taken: ")
    page.route("**/v1/batches", lambda route: route.fulfill(status=429, headers={"retry-after": "60"}, json={"error": {"message": "too many"}}))
    send(page, file("many.jsonl", jsonl([request(0)])), file("after.jsonl", jsonl([request(0)])))
    expect(page.get_by_role("alert")).to_have_text("many.jsonl was not taken: too many. Try again in 60 s.")
    page.unroute("**/v1/batches")
    server.wait_until(lambda: files() == before)
    page.watched.check(FAILED_REQUEST)


# ---- answers made by the test ----

def batch(i, status="in_progress", total=400, completed=100, failed=20, **fields):
    return {"id": f"batch_{i}", "status": status, "endpoint": "/v1/embeddings", "created_at": 1000 + i, "input_file_id": f"file-{i}",
            "request_counts": {"total": total, "completed": completed, "failed": failed}, "errors": None, **fields}


def give(page, batches, **fields):
    """From now on the server has these batches. Their inputs: the first alone is still there."""
    page.route("**/v1/batches?*", lambda route: route.fulfill(json={"data": batches, "last_id": batches[-1]["id"], "has_more": False, **fields}))
    page.route("**/v1/files?*", lambda route: route.fulfill(json={"data": [{"id": "file-0", "filename": "in.jsonl"}]}))


@pytest.fixture
def jobs(open_page, fake):
    def make(batches, **options):
        page = open_page("about:blank", **options)
        give(page, batches)
        page.goto(f"{fake.url}/#jobs")
        return page
    yield make
    open_page("about:blank").unroute_all()


def test_progress_moves_and_rows_keep_the_focus(jobs):
    page = jobs([batch(0), batch(1, "validating", 0, 0, 0)])
    bar = page.get_by_role("progressbar", name="Lines of in.jsonl")
    expect(bar).to_have_attribute("aria-valuenow", "120")
    expect(job(page, "file-1")).to_contain_text("lines are being checked")
    page.get_by_role("button", name="Cancel in.jsonl").focus()
    give(page, [batch(0, completed=280), batch(1, "completed", 1, 1, 0, output_file_id="file-o", completed_at=4601 + 1000)])
    expect(bar).to_have_attribute("aria-valuenow", "300")
    widths = bar.evaluate("node => [...node.children].map((part) => part.getBoundingClientRect().width / node.getBoundingClientRect().width)")
    assert [round(w, 2) for w in widths] == [0.7, 0.05, 0.25]
    expect(job(page, "file-1")).to_contain_text(re.compile(r"1 of 1 line · .* took 1 h 16 min"))
    expect(page.get_by_role("button", name="Cancel in.jsonl")).to_be_focused()
    give(page, [batch(2, "validating"), batch(0)])
    expect(page.locator(".job h2")).to_have_text(["file-2", "in.jsonl"])
    page.watched.check()


def test_pages_of_jobs(jobs):
    page = jobs([batch(0)])
    give(page, [batch(0)], has_more=True)
    page.route("**/v1/batches?*after=batch_0", lambda route: route.fulfill(json={"data": [batch(1)], "last_id": "batch_1", "has_more": False}))
    page.get_by_role("button", name="Older").click()
    expect(page.locator(".job h2")).to_have_text(["file-1"])
    expect(page.get_by_role("button", name="Older")).to_be_hidden()
    page.get_by_role("button", name="Newer").click()
    expect(page.locator(".job h2")).to_have_text(["in.jsonl"])
    page.watched.check()


def test_jobs_are_asked_for_only_while_they_are_seen(jobs):
    page = jobs([batch(0)])
    expect(page.locator(".job")).to_have_count(1)
    page.get_by_role("link", name="Chat").click()
    asked = []
    page.on("request", lambda r: asked.append(r.url))
    page.wait_for_timeout(1500)
    assert [url for url in asked if "/v1/" in url] == []
    page.watched.check()


def refuse(page, status, message):
    page.route("**/v1/batches?*", lambda route: route.fulfill(status=status, json={"error": {"message": message}}))


def test_a_server_without_a_folder_and_one_with_a_key(jobs):
    page = jobs([batch(0)])
    refuse(page, 403, "files and batches need a folder: batch.state_dir (--state-dir)")
    page.reload()
    expect(page.get_by_text("This server keeps no jobs: it was started without --state-dir DIR")).to_be_visible()
    expect(page.locator(".upload")).to_be_hidden()
    refuse(page, 401, "no valid API key")
    page.reload()
    expect(page.get_by_role("alert").first).to_have_text("No jobs: no valid API key.")
    page.get_by_role("button", name="Enter the API key").click()
    expect(page.locator("#set-key")).to_be_focused()
    page.locator("#set-key").fill("secret")
    give(page, [batch(0)])
    page.keyboard.press("Enter")
    expect(job(page, "in.jsonl")).to_be_visible()
    expect(page.locator("#view-jobs").get_by_role("alert")).to_be_hidden()
    page.watched.check(FAILED_REQUEST)


DROP = """(texts) => {
    const data = new DataTransfer();
    texts.forEach((text, i) => data.items.add(new File([text], `${i}.jsonl`)));
    for (const type of ["dragover", "drop"]) {
        document.querySelector(".drop").dispatchEvent(new DragEvent(type, {dataTransfer: data, bubbles: true, cancelable: true}));
    }
}"""


def test_dropped_files_take_their_endpoint_from_their_lines(jobs):
    page = jobs([batch(0)])
    made = []
    page.route("**/v1/files", lambda route: route.fulfill(json={"id": "file-0"}))
    page.route("**/v1/batches", lambda route: (made.append(route.request.post_data_json), route.fulfill(json=batch(0))))
    expect(page.locator(".job")).to_have_count(1)
    page.evaluate(DROP, ["\ufeff\n" + json.dumps({"url": "/v1/responses"}), 'broken\n{"url": "/v1/completions"}\n'])
    expect(page.locator(".upload [role=status]")).to_have_text("1.jsonl: sent")
    page.evaluate(DROP, ["{}\n"])
    expect(page.get_by_role("alert").first).to_have_text("0.jsonl was not taken: its first lines name no endpoint of this server; choose one.")
    page.get_by_label("Endpoint").select_option("/v1/embeddings")
    page.get_by_label("Time limit").select_option("7 days")
    page.evaluate(DROP, ["{}\n"])
    expect(page.locator(".upload [role=status]")).to_have_text("0.jsonl: sent")
    assert [(b["endpoint"], b["completion_window"]) for b in made] == [("/v1/responses", "24h"), ("/v1/completions", "24h"), ("/v1/embeddings", "7d")]
    page.watched.check()


def test_an_upload_is_stopped(jobs):
    page = jobs([batch(0)])
    page.route("**/v1/files", lambda route: None)  # never answered
    send(page, file("in.jsonl", jsonl([request(0)])))
    page.get_by_role("button", name="Stop").press("Enter")
    expect(page.locator(".upload [role=status]")).to_have_text("in.jsonl: stopped")
    expect(page.get_by_label("Choose files")).to_be_focused()
    page.watched.check()


def test_controls_have_names_and_fit_a_phone(jobs):
    fault = {"line": 7, "message": "x" * 300}
    page = jobs([batch(0, "cancelled", output_file_id="file-o", error_file_id="file-e"), batch(1, "failed", errors={"data": [fault]}), batch(2)],
                viewport={"width": 360, "height": 640}, has_touch=True, is_mobile=True)
    expect(page.locator(".job")).to_have_count(3)
    assert page.evaluate("document.documentElement.scrollWidth <= 360 && document.getElementById('view-jobs').scrollWidth <= 360")
    assert page.evaluate("""() => [...document.querySelectorAll("#view-jobs :is(button, input, select)")].filter((node) =>
        !(node.getAttribute("aria-label") || node.labels?.length || node.textContent.trim())).map((node) => node.outerHTML)""") == []
    page.watched.check()
