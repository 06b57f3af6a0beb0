"""The transport of `millrace serve`: what comes in, what goes out, who may ask, and how it ends."""
import json
import os
import signal
import threading
import time
from pathlib import Path

import pytest

from server import SMOLLM2, Server, needs_smollm2, raw_request, read_all, read_until, run

pytestmark = needs_smollm2

PROMPT = {"prompt": "The capital of France is", "n_predict": 8, "temperature": 0, "ignore_eos": True}


@pytest.fixture(scope="module")
def server():
    with Server("--access-log", "-") as s:
        yield s
        assert s.process.poll() is None, s.error_text()
        assert s.end() == 0


def events(body):
    return [json.loads(line[6:]) for line in body.decode().split("\n\n") if line.startswith("data: ")]


def test_health_is_told_in_five_ways(server):
    for path in ("/livez", "/readyz", "/health", "/v1/health", "/ping"):
        reply = server.get(path)
        assert (reply.status, reply.json()) == (200, {"status": "ok"})


def test_not_ready_before_the_model_has_answered():
    with Server(wait=False) as s:
        first = s.get("/readyz")
        assert s.get("/livez").status == 200
        other = s.post("/completion", PROMPT)
        if first.status == 503 and other.status == 503:  # a fast machine may be ready by now
            assert first.json()["error"]["message"] == "Loading model"
            assert other.headers["Retry-After"] == "2"
        s.wait_ready()
        assert s.post("/completion", PROMPT).status == 200


def test_stream_and_whole_answer_are_the_same_text(server):
    whole = server.post("/completion", PROMPT).json()["content"]
    reply = server.post("/completion", {**PROMPT, "stream": True})
    assert reply.headers["Content-Type"] == "text/event-stream"
    assert "".join(e["content"] for e in events(reply.body)) == whole


def test_unknown_paths_and_methods(server):
    reply = server.get("/nope")
    assert reply.status == 404 and "/nope" in reply.json()["error"]["message"]
    reply = server.request("DELETE", "/v1/models")
    assert reply.status == 405 and reply.headers["Allow"] == "GET, HEAD, OPTIONS"


def test_head_has_no_body(server):
    with server.connect() as s:
        s.sendall(raw_request("HEAD", "/health"))
        head, body = read_all(s).split(b"\r\n\r\n", 1)
    assert head.startswith(b"HTTP/1.1 200") and b"Content-Length: 15" in head and body == b""


def test_models_by_name(server):
    name = server.get("/v1/models").json()["data"][0]["id"]
    assert server.get(f"/v1/models/{name}").json()["id"] == name
    reply = server.get("/v1/models/another%2Fone")
    assert reply.status == 404 and reply.json()["error"]["code"] == "model_not_found"
    assert "another/one" in reply.json()["error"]["message"]


def test_request_id_is_the_clients_where_it_is_one(server):
    assert server.get("/health", headers={"x-request-id": "abc-1"}).headers["x-request-id"] == "abc-1"
    assert server.get("/health", headers={"x-request-id": 'a"b'}).headers["x-request-id"].startswith("req_")


def test_access_log_has_a_line_of_json_for_each_request(server):
    server.post("/completion", PROMPT, headers={"x-request-id": "logged-1"})
    line = json.loads(server.expect(rb'\n(\{[^\n]*"logged-1"[^\n]*\})\n')[1])
    assert (line["status"], line["path"], line["completion_tokens"], line["finish"]) == (200, "/completion", 8, "length")
    assert 0 < line["ttft_ms"] <= line["total_ms"] and line["bytes_out"] > 0
    assert sum(line["stages_ms"].values()) == pytest.approx(line["total_ms"], rel=0.01)
    assert line["stages_ms"]["decode"] > line["stages_ms"]["sample"] > 0


def test_bodies_beyond_the_limit_get_413():
    with Server("--max-body-bytes", "4096") as s:
        assert s.post("/completion", {**PROMPT, "prompt": "x" * 3000}).status == 200
        assert s.post("/completion", b"x" * 4097).status == 413
        with s.connect() as c:  # asked before it is sent
            c.sendall(b"POST /completion HTTP/1.1\r\nHost: l\r\nContent-Length: 5000\r\nExpect: 100-continue\r\n\r\n")
            assert c.recv(100).startswith(b"HTTP/1.1 413")
        with s.connect() as c:  # not announced
            c.sendall(b"POST /completion HTTP/1.1\r\nHost: l\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n")
            for _ in range(5):
                c.sendall(b"400\r\n" + b"x" * 1024 + b"\r\n")
            c.sendall(b"0\r\n\r\n")
            assert read_all(c).startswith(b"HTTP/1.1 413")


def test_long_bodies_are_read_beside_other_requests(server):
    assert server.post("/completion", {**PROMPT, "prompt": "word " * 100, "padding": "x" * 40000}).status == 200


def test_requests_in_a_row_on_one_connection(server):
    body = json.dumps(PROMPT).encode()
    with server.connect() as s:
        for _ in range(3):
            s.sendall(raw_request("POST", "/completion", body, connection="keep-alive"))
            head, rest = read_until(s, b"\r\n\r\n").split(b"\r\n\r\n", 1)
            length = int(next(l.split(b":")[1] for l in head.split(b"\r\n") if l.lower().startswith(b"content-length")))
            while len(rest) < length:
                rest += s.recv(65536)
            assert json.loads(rest)["tokens_predicted"] == 8


def test_keys_are_asked_for():
    with Server("--api-key", "right", "--api-key", "too") as s:
        assert s.get("/health").status == 200
        reply = s.get("/v1/models")
        assert reply.status == 401 and reply.headers["WWW-Authenticate"] == "Bearer"
        assert reply.json()["error"]["code"] == "invalid_api_key"
        assert s.get("/v1/models", headers={"Authorization": "Bearer wrong"}).status == 401
        assert s.get("/v1/models", headers={"Authorization": "Bearer right"}).status == 200
        assert s.get("/v1/models", headers={"x-api-key": "too"}).status == 200


def test_other_addresses_need_a_key():
    r = run("serve", "-m", SMOLLM2, "--host", "0.0.0.0", "--port", "0")
    assert r.returncode == 1 and "API key" in r.stderr and r.stdout == ""


def test_other_origins_are_told_what_they_may():
    with Server("--cors-origin", "https://a.example, https://b.example") as s:
        headers = {"Origin": "https://b.example", "Access-Control-Request-Method": "POST",
                   "Access-Control-Request-Headers": "authorization, x-own"}
        reply = s.request("OPTIONS", "/completion", headers=headers)
        assert reply.status == 204
        assert reply.headers["Access-Control-Allow-Origin"] == "https://b.example"
        assert reply.headers["Access-Control-Allow-Headers"] == "authorization, x-own"
        assert "POST" in reply.headers["Access-Control-Allow-Methods"]
        assert s.get("/health", headers={"Origin": "https://c.example"}).headers["Access-Control-Allow-Origin"] is None


def test_the_server_ends_when_running_requests_have():
    with Server() as s:
        got = []
        thread = threading.Thread(target=lambda: got.append(s.post("/completion", {**PROMPT, "n_predict": 200})))
        thread.start()
        s.wait_until(lambda: s.load() == 1)
        s.process.send_signal(signal.SIGTERM)
        s.wait_until(lambda: s.get("/readyz").status == 503)
        assert s.post("/completion", PROMPT).status == 503
        thread.join()
        assert got[0].json()["tokens_predicted"] == 200
        assert s.process.wait(60) == 0


def test_what_runs_longer_than_the_drain_is_told():
    with Server("--drain", "0") as s:
        with s.connect() as c:
            body = json.dumps({**PROMPT, "n_predict": 1500, "stream": True}).encode()
            c.sendall(raw_request("POST", "/completion", body))
            read_until(c, b"data: ")
            assert s.end() == 0
            assert b"the server shuts down" in read_all(c)


def test_an_idle_server_takes_no_cpu(server):
    def ticks():
        fields = Path(f"/proc/{server.pid}/stat").read_text().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])

    assert server.post("/completion", PROMPT).status == 200
    time.sleep(0.5)  # threads spin for a moment before they sleep
    before = ticks()
    time.sleep(2)
    assert ticks() - before < 0.03 * 2 * os.sysconf("SC_CLK_TCK")
