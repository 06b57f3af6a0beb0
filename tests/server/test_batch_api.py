"""/v1/files and /v1/batches: what clients are told, and what becomes of their lines."""
import json
import resource
import signal
import sqlite3
import subprocess
import time
from contextlib import closing

import pytest
from batch_api import Client, form, jsonl, request, serve
from server import MILLRACE, SMOLLM2, Server, needs_smollm2, raw_request, read_all

pytestmark = needs_smollm2


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with serve(tmp_path_factory.mktemp("batch"), "--batch-file-bytes", "3M", "--batch-lines", "2000") as s:
        yield s


@pytest.fixture
def client(server):
    return Client(server)


# ---- files ----

def test_a_file_is_told_given_and_forgotten(client):
    r = client.upload(b"a\r\n\0b", name="x.jsonl")
    assert r.status == 200
    file = r.json()
    assert file["object"] == "file" and file["bytes"] == 5 and file["filename"] == "x.jsonl" and file["purpose"] == "batch"
    assert file["status"] == "processed" and file["expires_at"] == file["created_at"] + 30 * 86400
    assert client.ask("GET", f"/v1/files/{file['id']}").json() == file
    r = client.ask("GET", f"/v1/files/{file['id']}/content")
    assert r.body == b"a\r\n\0b" and r.headers["Content-Type"] == "application/octet-stream"
    assert client.ask("DELETE", f"/v1/files/{file['id']}").json() == {"id": file["id"], "object": "file", "deleted": True}
    for method, path in (("GET", ""), ("GET", "/content"), ("DELETE", "")):
        r = client.ask(method, f"/v1/files/{file['id']}{path}")
        assert r.status == 404 and r.json()["error"]["type"] == "not_found_error"


def test_lists_go_by_pages(client):
    mine = [client.upload(str(i).encode(), purpose="user_data").json()["id"] for i in range(5)]
    seen, after = [], ""
    while True:
        page = client.ask("GET", f"/v1/files?purpose=user_data&limit=2{after}").json()
        seen += [f["id"] for f in page["data"]]
        assert page["first_id"] == page["data"][0]["id"] and page["last_id"] == page["data"][-1]["id"]
        if not page["has_more"]:
            break
        after = f"&after={page['last_id']}"
    assert seen == mine[::-1]
    up = client.ask("GET", f"/v1/files?purpose=user_data&order=asc&after={mine[1]}").json()
    assert [f["id"] for f in up["data"]] == mine[2:] and not up["has_more"]
    empty = client.ask("GET", "/v1/files?purpose=vision").json()
    assert empty["data"] == [] and empty["first_id"] is None and empty["has_more"] is False
    for query, param in (("limit=0", "limit"), ("limit=x", "limit"), ("order=up", "order"), ("after=file-1", "after")):
        r = client.ask("GET", f"/v1/files?{query}")
        assert r.status == 400 and r.json()["error"]["param"] == param


def test_a_file_may_say_when_it_is_forgotten(client):
    fields = {"expires_after[anchor]": "created_at", "expires_after[seconds]": 3600}
    file = client.upload(b"x", **fields).json()
    assert file["expires_at"] == file["created_at"] + 3600
    for name, value in (("expires_after[anchor]", "now"), ("expires_after[seconds]", 5), ("expires_after[seconds]", "1h")):
        r = client.upload(b"x", **{**fields, name: value})
        assert r.status == 400 and r.json()["error"]["param"].startswith("expires_after.")


def test_what_is_no_form_with_a_file_is_refused(client, server):
    body, headers = form(b"x" * 1000)
    many = form(b"x")[0][:-len("--xyzzy--\r\n")] + form(b"y")[0]
    for sent, head, status, word in (
            (form(b"x", purpose="dinner")[0], headers, 400, "purpose"), (form(b"x", purpose=None)[0], headers, 400, "purpose"),
            (form(None)[0], headers, 400, "file"), (body[:-20], headers, 400, "form"), (many, headers, 400, "twice"),
            (body, {"Content-Type": "multipart/form-data"}, 400, "boundary"), (b"{}", {"Content-Type": "application/json"}, 400, "form"),
            (form(b"x", name="n" * 300)[0], headers, 400, "name"), (form(b"x", purpose="p" * 300)[0], headers, 400, "purpose"),
            (form(b"x" * (3 << 20) + b"y")[0], headers, 413, "bytes"), (b"", headers, 400, "file")):
        r = client.ask("POST", "/v1/files", sent, head)
        assert r.status == status and word in r.json()["error"]["message"], (r.status, r.body)
    body = form(b"x" * (4 << 20))[0]
    pieces = [body[i:i + 50000] for i in range(0, len(body), 50000)]
    with server.connect() as s:  # without a length, and far too long
        s.sendall(b"POST /v1/files HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n"
                  b"Content-Type: multipart/form-data; boundary=xyzzy\r\n\r\n" + b"".join(b"%x\r\n%b\r\n" % (len(p), p) for p in pieces) + b"0\r\n\r\n")
        assert b" 413 " in read_all(s)[:20]
    assert client.upload(b"x" * (3 << 20)).status == 200
    assert server.get("/readyz").status == 200


def test_an_upload_goes_to_the_disk_and_not_into_memory(tmp_path):
    n = 160 << 20
    line = b"x" * ((1 << 20) - 1) + b"\n"
    head, tail = form(b"|")[0].split(b"|")
    with serve(tmp_path) as server, server.connect() as s:
        def resident():
            text = open(f"/proc/{server.pid}/status").read()
            return int(text.split("VmRSS:")[1].split()[0]) << 10
        server.post("/v1/chat/completions", request(0)["body"])
        before = most = resident()
        s.sendall(raw_request("POST", "/v1/files", headers=[f"Content-Length: {len(head) + n + len(tail)}",
                              "Content-Type: multipart/form-data; boundary=xyzzy"]).replace(b"Content-Length: 0\r\n", b"") + head)
        for _ in range(n // len(line)):
            s.sendall(line)
            most = max(most, resident())
        s.sendall(tail)
        file = json.loads(read_all(s).split(b"\r\n\r\n")[1])
        assert file["bytes"] == n
        assert most - before < 24 << 20
        assert (tmp_path / "state" / "files" / file["id"]).stat().st_size == n
        with server.connect() as t:  # and comes back the same way
            t.sendall(raw_request("GET", f"/v1/files/{file['id']}/content"))
            got = 0
            while piece := t.recv(1 << 20):
                got += len(piece)
                most = max(most, resident())
        assert n < got < n + 1000 and most - before < 24 << 20


def test_an_upload_that_is_broken_off_leaves_nothing(tmp_path):
    body, headers = form(b"x" * 500000)
    with serve(tmp_path) as server:
        with server.connect() as s:
            s.sendall(raw_request("POST", "/v1/files", headers=["Content-Type: " + headers["Content-Type"],
                                  f"Content-Length: {len(body)}"]).replace(b"Content-Length: 0\r\n", b"") + body[:400000])
            server.wait_until(lambda: list((tmp_path / "state" / "files").iterdir()))
        server.wait_until(lambda: not list((tmp_path / "state" / "files").iterdir()))


# ---- batches ----

def test_a_batch_runs_and_its_files_hold_every_line_once(client):
    lines = [request(i, **({"temperature": -5} if i == 2 else {"stream": True} if i == 4 else {})) for i in range(6)]
    job = client.create(jsonl(lines), metadata={"a": "b"})
    assert job["object"] == "batch" and job["status"] in ("validating", "in_progress") and job["metadata"] == {"a": "b"}
    assert job["expires_at"] == job["created_at"] + 86400 and job["completed_at"] is None and job["errors"] is None
    done = client.wait(job["id"])
    assert done["status"] == "completed" and done["request_counts"] == {"total": 6, "completed": 4, "failed": 2}
    times = [done[f"{s}_at"] for s in ("created", "in_progress", "finalizing", "completed")]
    assert times == sorted(times)
    answers, errors = client.content(done["output_file_id"]), client.content(done["error_file_id"])
    assert [a["custom_id"] for a in answers] == ["r0", "r1", "r3", "r5"]
    assert [e["custom_id"] for e in errors] == ["r2", "r4"]
    assert [e["response"]["status_code"] for e in errors] == [400, 400]
    direct = client.ask("POST", "/v1/chat/completions", lines[3]["body"]).json()
    assert answers[2]["response"]["body"]["choices"] == direct["choices"]
    file = client.ask("GET", f"/v1/files/{done['output_file_id']}").json()
    assert file["purpose"] == "batch_output" and file["filename"].endswith(".jsonl")
    assert job["id"] in [b["id"] for b in client.ask("GET", "/v1/batches?limit=1").json()["data"]]


@pytest.mark.parametrize("url, body", [
    ("/v1/completions", {"prompt": "One, two,", "max_tokens": 3}),
    ("/v1/responses", {"input": "Say one", "max_output_tokens": 3}),
    ("/v1/embeddings", {"input": "one"})])
def test_all_endpoints_of_batches_answer(client, url, body):
    line = {"custom_id": "a", "method": "POST", "url": url, "body": body}
    done = client.wait(client.create(jsonl([line]), endpoint=url)["id"])
    assert done["request_counts"]["total"] == 1 and done["status"] == "completed"
    got = client.content(done["output_file_id"] or done["error_file_id"])[0]["response"]
    assert got["status_code"] == client.ask("POST", url, body).status


def test_what_is_no_batch_is_refused(client):
    file = client.upload(jsonl([request(0)])).json()["id"]
    other = client.upload(b"x", purpose="vision").json()["id"]
    good = {"input_file_id": file, "endpoint": "/v1/chat/completions", "completion_window": "24h"}
    for change, param in (({"input_file_id": "file-1"}, "input_file_id"), ({"input_file_id": other}, "input_file_id"),
                          ({"input_file_id": None}, "input_file_id"), ({"endpoint": "/v1/models"}, "endpoint"),
                          ({"completion_window": "soon"}, "completion_window"), ({"completion_window": "31d"}, "completion_window"),
                          ({"completion_window": "-1h"}, "completion_window"), ({"metadata": {"a": 1}}, "metadata"),
                          ({"metadata": {str(i): "" for i in range(17)}}, "metadata"), ({"metadata": []}, "metadata"),
                          ({"output_expires_after": {"anchor": "now", "seconds": 3600}}, "output_expires_after.anchor")):
        r = client.ask("POST", "/v1/batches", {**good, **change})
        assert r.status == 400 and r.json()["error"]["param"] == param, r.body
    for method, path in (("GET", ""), ("POST", "/cancel")):
        assert client.ask(method, f"/v1/batches/batch_1{path}").status == 404


GOOD = json.dumps(request(0)).encode()
OTHER = json.dumps({**request(1), "custom_id": "r0"}).encode()
STRUCTURE = {
    "two equal ids": (GOOD + b"\n" + OTHER, 2, "duplicate_custom_id"),
    "cut": (GOOD + b"\n\n" + GOOD[:50], 3, "invalid_json_line"),
    "no method": (GOOD.replace(b'"method"', b'"m"'), 1, "missing_required_parameter"),
    "no url": (GOOD.replace(b'"url"', b'"u"'), 1, "missing_required_parameter"),
    "no body": (GOOD.replace(b'"body"', b'"b"'), 1, "missing_required_parameter"),
    "another url": (json.dumps(request(0, url="/v1/completions")).encode(), 1, "invalid_url"),
    "no id": (GOOD.replace(b'"custom_id"', b'"c"'), 1, "missing_required_parameter"),
    "a byte that is no text": (GOOD + b"\n" + GOOD.replace(b"r0", b"r\xff"), 2, "invalid_json_line"),
    "id a number": (GOOD.replace(b'"r0"', b"7"), 1, "invalid_type"),
    "no lines": (b"", 1, "empty_file"),
    "too many lines": (b"\n".join(json.dumps(request(i)).encode() for i in range(2001)), 2001, "too_many_tasks"),
}


@pytest.mark.parametrize("name", STRUCTURE)
def test_a_structural_fault_fails_the_batch_with_its_line_and_nothing_runs(client, name):
    text, line, code = STRUCTURE[name]
    done = client.wait(client.create(text)["id"])
    assert done["status"] == "failed" and done["failed_at"] and done["in_progress_at"] is None
    assert done["output_file_id"] is None and done["error_file_id"] is None
    assert done["errors"]["object"] == "list"
    assert [(e["line"], e["code"]) for e in done["errors"]["data"]] == [(line, code)] and done["errors"]["data"][0]["message"]
    assert done["request_counts"]["completed"] == 0


def test_all_faults_are_told_with_their_lines(client):
    text = b"\n".join([GOOD, b"{", OTHER, b"", GOOD.replace(b'"url"', b'"u"').replace(b"r0", b"r5"), b"[]"])
    done = client.wait(client.create(text)["id"])
    assert done["status"] == "failed"
    assert [(e["line"], e["code"]) for e in done["errors"]["data"]] == [
        (2, "invalid_json_line"), (3, "duplicate_custom_id"), (5, "missing_required_parameter"), (6, "invalid_json_line")]


def test_a_batch_may_have_50000_lines_and_not_one_more(tmp_path):
    with serve(tmp_path) as server:
        client = Client(server)
        lines = jsonl(request(i) for i in range(50_001))
        done = client.wait(client.create(lines)["id"])
        assert done["status"] == "failed" and done["errors"]["data"][0]["code"] == "too_many_tasks"
        job = client.create(lines[:lines[:-1].rindex(b"\n") + 1])
        server.wait_until(lambda: client.get(job["id"])["status"] != "validating")
        assert client.get(job["id"])["request_counts"]["total"] == 50_000
        client.ask("POST", f"/v1/batches/{job['id']}/cancel")
        done = client.wait(job["id"])
        assert done["status"] == "cancelled" and sum(done["request_counts"].values()) == 100_000
        ids = [a["custom_id"] for f in ("output_file_id", "error_file_id") for a in client.content(done[f])]
        assert len(ids) == 50_000 and set(ids) == {f"r{i}" for i in range(50_000)}


def test_marks_line_ends_and_odd_ids_are_taken(client):
    ids = ["x" * 1000, "a\u0001\n\u001b", "ä"]
    text = b"\xef\xbb\xbf" + b"\r\n\r\n".join(json.dumps({**request(i), "custom_id": c}).encode() for i, c in enumerate(ids))
    done = client.wait(client.create(text)["id"])
    assert [a["custom_id"] for a in client.content(done["output_file_id"])] == ids


def test_a_cancelled_batch_keeps_what_was_done(client):
    n = 400
    job = client.create(jsonl([request(i, max_tokens=30) for i in range(n)]))
    client.server.wait_until(lambda: client.get(job["id"])["request_counts"]["completed"] > 0)
    r = client.ask("DELETE", f"/v1/files/{job['input_file_id']}")
    assert r.status == 409  # it is being read
    r = client.ask("POST", f"/v1/batches/{job['id']}/cancel")
    assert r.status == 200 and r.json()["status"] == "cancelling" and r.json()["cancelling_at"]
    done = client.wait(job["id"])
    assert done["status"] == "cancelled" and done["cancelled_at"]
    answers, errors = client.content(done["output_file_id"]), client.content(done["error_file_id"])
    assert 0 < len(answers) < n and all(e["error"]["code"] == "batch_cancelled" for e in errors)
    assert sorted(a["custom_id"] for a in answers + errors) == sorted(f"r{i}" for i in range(n))
    assert done["request_counts"] == {"total": n, "completed": len(answers), "failed": len(errors)}
    assert client.ask("POST", f"/v1/batches/{job['id']}/cancel").status == 409
    assert client.ask("DELETE", f"/v1/files/{job['input_file_id']}").status == 200


def test_a_window_that_is_over_ends_a_batch(client):
    job = client.create(jsonl([request(i, max_tokens=100, ignore_eos=True) for i in range(1000)]), window="3s")
    done = client.wait(job["id"])
    assert done["status"] == "expired" and done["expired_at"] >= done["expires_at"]
    errors = client.content(done["error_file_id"])
    assert errors and all(e["error"]["code"] == "batch_expired" for e in errors)
    assert len(errors) + len(client.content(done["output_file_id"])) == 1000


# ---- metrics ----

def metric(server, series):
    return float(next(line for line in server.get("/metrics").body.decode().split("\n") if line.startswith(series + " ")).split()[-1])


def test_metrics_tell_what_waits_and_what_is_done(tmp_path):
    def batches():
        return [metric(server, f'millrace_batches{{status="{s}"}}') for s in ("validating", "in_progress", "finalizing", "cancelling")]

    def results():
        return [int(metric(server, f'millrace_batch_lines_total{{result="{r}"}}')) for r in ("completed", "failed", "cancelled", "expired")]

    with serve(tmp_path) as server:
        client = Client(server)
        client.wait(client.create(jsonl([request(0), request(1, temperature=-5), request(2)]))["id"])
        assert results() == [2, 1, 0, 0] and sum(batches()) == 0
        assert metric(server, "millrace_batch_lines_pending") == metric(server, "millrace_batch_oldest_line_age_seconds") == 0
        jobs = [client.create(jsonl([request(i, max_tokens=30) for i in range(200)])) for _ in range(2)]
        server.wait_until(lambda: batches() == [0, 2, 0, 0] and results()[0] > 2)
        assert server.end(signal.SIGTERM) == 0
    with closing(sqlite3.connect(tmp_path / "state" / "batch.db")) as db:
        before = db.execute("SELECT count(*) FROM line WHERE state = 1").fetchone()[0]
    with serve(tmp_path) as server:
        client = Client(server)
        assert batches() == [0, 2, 0, 0] and 200 < metric(server, "millrace_batch_lines_pending") < 400
        assert metric(server, "millrace_batch_oldest_line_age_seconds") >= 0
        for job in jobs:
            client.ask("POST", f"/v1/batches/{job['id']}/cancel")
        counts = [client.wait(job["id"])["request_counts"] for job in jobs]
        completed, failed, cancelled, expired = results()
        assert completed == sum(c["completed"] for c in counts) - before
        assert cancelled == sum(c["failed"] for c in counts) and failed == expired == 0
        assert sum(batches()) == metric(server, "millrace_batch_lines_pending") == 0


# ---- whose they are, and how many ----

def test_keys_see_their_own_and_have_limits(tmp_path):
    options = ("--api-key", "one", "--api-key", "two", "--batch-jobs", "2", "--batch-store-bytes", "100K")
    with serve(tmp_path, *options) as server:
        one, two, nobody = Client(server, "one"), Client(server, "two"), Client(server)
        assert nobody.upload(b"x").status == 401 and nobody.ask("GET", "/v1/batches").status == 401
        job = one.create(jsonl([request(i, max_tokens=100, ignore_eos=True) for i in range(300)]))
        for path in (f"/v1/files/{job['input_file_id']}", f"/v1/batches/{job['id']}"):
            assert one.ask("GET", path).status == 200 and two.ask("GET", path).status == 404
        assert two.ask("POST", f"/v1/batches/{job['id']}/cancel").status == 404
        assert two.ask("DELETE", f"/v1/files/{job['input_file_id']}").status == 404
        assert two.ask("GET", "/v1/files").json()["data"] == [] == two.ask("GET", "/v1/batches").json()["data"]
        again = {k: job[k] for k in ("input_file_id", "endpoint", "completion_window")}
        assert two.ask("POST", "/v1/batches", again).status == 400
        assert one.ask("POST", "/v1/batches", again).status == 200
        r = one.ask("POST", "/v1/batches", again)
        assert r.status == 429 and "Retry-After" in r.headers
        assert two.upload(b"x" * (90 << 10)).status == 200
        assert two.upload(b"x" * (20 << 10)).status == 413 and one.upload(b"x" * (20 << 10)).status == 200


def test_a_short_batch_does_not_wait_for_the_end_of_another_key_s(tmp_path):
    vector = {"url": "/v1/embeddings", "messages": None, "max_tokens": None, "temperature": None, "input": "the same"}
    with serve(tmp_path, "--api-key", "one", "--api-key", "two") as server:
        one, two = Client(server, "one"), Client(server, "two")
        short = [two.create(jsonl([request(i, **vector) for i in range(3)]), endpoint="/v1/embeddings") for _ in range(2)]
        assert {two.wait(job["id"])["status"] for job in short} == {"completed"}
        long = one.create(jsonl([request(i, **vector) for i in range(2500)]), endpoint="/v1/embeddings")
        one.wait(long["id"], ("in_progress",))
        short = two.create(jsonl([request(i, **vector) for i in range(3)]), endpoint="/v1/embeddings")
        assert two.wait(short["id"])["status"] == "completed"
        counts = one.get(long["id"])["request_counts"]
        assert counts["completed"] < counts["total"] == 2500
        assert one.wait(long["id"])["request_counts"] == {"total": 2500, "completed": 2500, "failed": 0}


def test_without_a_folder_there_are_none():
    with Server("-c", "64", wait=True) as server:
        for reply in (server.get("/v1/files"), server.get("/v1/batches"), server.request("POST", "/v1/files", *form(b"x"))):
            assert reply.status == 403 and "--state-dir" in reply.json()["error"]["message"]


# ---- what ends a server ----

def test_a_second_server_on_the_folder_is_refused(tmp_path):
    with serve(tmp_path):
        r = subprocess.run([MILLRACE, "serve", "-m", SMOLLM2, "--port", "0", "--state-dir", tmp_path / "state"],
                           capture_output=True, text=True, timeout=600)
        assert r.returncode == 1 and "in use by another process" in r.stderr


def test_a_job_goes_on_after_a_restart(tmp_path):
    with serve(tmp_path) as server:
        client = Client(server)
        job = client.create(jsonl([request(i) for i in range(60)]))
        server.wait_until(lambda: client.get(job["id"])["request_counts"]["completed"] > 3)
        assert server.end(signal.SIGTERM) == 0
    with serve(tmp_path) as server:
        client = Client(server)
        assert client.get(job["id"])["request_counts"]["completed"] > 3
        done = client.wait(job["id"])
        assert done["status"] == "completed" and done["request_counts"] == {"total": 60, "completed": 60, "failed": 0}
        assert [a["custom_id"] for a in client.content(done["output_file_id"])] == [f"r{i}" for i in range(60)]
        assert sorted(f.name for f in (tmp_path / "state" / "files").iterdir()) == sorted(
            [job["input_file_id"], done["output_file_id"]])


def test_a_full_disk_is_told_and_lines_wait(tmp_path):
    """No file may pass a size, and later it may."""
    with serve(tmp_path) as server:
        client = Client(server)
        resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))
        r = client.upload(b"x" * 300_000)
        assert r.status == 503 and "file" in r.json()["error"]["message"]
        job = client.create(jsonl([request(i) for i in range(150)]))
        time.sleep(3)
        resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        done = client.wait(job["id"])
        assert done["status"] == "completed" and done["request_counts"]["completed"] == 150
        assert [a["custom_id"] for a in client.content(done["output_file_id"])] == [f"r{i}" for i in range(150)]
