"""Clients that take their time, or hold many connections, cost the server and others little."""
import json
import os
import resource
import socket
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from server import Server, memory_kb, needs_smollm2, raw_request, read_until

pytestmark = needs_smollm2

IDLE_CONNECTIONS = 10000


@pytest.fixture(scope="module")
def impatient():
    with Server("--request-timeout", "2", "--idle-timeout", "3", "--keep-alive", "1") as s:
        yield s


@pytest.fixture(scope="module")
def patient():
    with Server() as s:
        yield s


def drip(c, text, deadline):
    """Send a byte at a time until the other side closes; seconds that it took."""
    begin = time.monotonic()
    c.settimeout(0.2)
    for byte in text:
        try:
            c.sendall(bytes([byte]))
            if c.recv(1000) == b"":
                break
        except TimeoutError:
            pass
        except OSError:
            break
        assert time.monotonic() - begin < deadline
    return time.monotonic() - begin


def test_who_drips_a_request_or_sends_none_is_cut_off(impatient):
    """In the line, in the headers, in the body; all at a time, as each takes the server's patience."""
    parts = [(b"", b"GET /"), (b"GET / HTTP/1.1\r\n", b"Host: l\r\nA: "),
             (b"POST /completion HTTP/1.1\r\nHost: l\r\nContent-Length: 1000\r\n\r\n", b"")]

    def cut_off(part):
        with impatient.connect() as c:
            c.sendall(part[0])
            drip(c, part[1] + b"a" * 500, deadline=60)

    def idle():
        with impatient.connect() as c:
            return c.recv(10)

    with ThreadPoolExecutor() as pool:
        idle = pool.submit(idle)
        waiting = [pool.submit(cut_off, part) for part in parts]
        assert impatient.get("/health").status == 200
        assert [w.result() for w in waiting] == [None] * len(parts) and idle.result() == b""
    assert impatient.get("/health").status == 200


def test_a_silent_stream_says_that_it_lives():
    with Server("--keep-alive", "1", "--max-batch-size", "1") as s:
        fields = {"prompt": "Once", "n_predict": 1900, "ignore_eos": True, "stream": True}
        with s.connect() as first, s.connect() as second:
            first.sendall(raw_request("POST", "/completion", json.dumps(fields).encode()))
            read_until(first, b"data: ")
            second.sendall(raw_request("POST", "/completion", json.dumps({**fields, "n_predict": 2}).encode()))
            read_until(second, b": keep-alive\n\n")


def test_beyond_the_limit_of_connections_one_waits():
    with Server("--max-connections", "5") as s:
        held = [s.connect() for _ in range(5)]
        with s.connect() as more:
            more.sendall(raw_request("GET", "/health"))
            more.settimeout(0.5)
            with pytest.raises(TimeoutError):
                more.recv(100)
            held.pop().close()
            more.settimeout(60)
            assert more.recv(100).startswith(b"HTTP/1.1 200")
        for c in held:
            c.close()


def test_bodies_are_bounded_together():
    with Server("--max-body-bytes", "4096") as s:
        held = [s.connect() for _ in range(16)]
        for c in held:
            c.sendall(b"POST /completion HTTP/1.1\r\nHost: l\r\nContent-Length: 4096\r\n\r\n" + b" " * 4090)
        body = b'{"prompt": "a", "n_predict": 1}' + b" " * 3000
        s.wait_until(lambda: s.post("/completion", body).status == 503)
        assert s.post("/completion", body).headers["Retry-After"] == "1"
        for c in held:
            c.close()
        s.wait_until(lambda: s.post("/completion", body).status == 200)


def test_a_header_that_is_too_long_is_refused(impatient):
    with impatient.connect() as c:
        c.sendall(b"GET /health HTTP/1.1\r\nHost: l\r\nA: " + b"a" * 40000 + b"\r\n\r\n")
        assert c.recv(100).startswith((b"HTTP/1.1 431", b"HTTP/1.0 431"))


NO_REQUESTS = [b"\0" * 100 + b"\r\n\r\n", b"GET\r\n\r\n", b"GET /health HTTP/9.9\r\nHost: l\r\n\r\n",
               b"GET /health HTTP/1.1\r\nHost: l\r\nContent-Length: x\r\n\r\n",
               b"POST /completion HTTP/1.1\r\nHost: l\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
               b"GET /%00 HTTP/1.1\r\nHost: l\r\n\r\n", b"GET /%zz HTTP/1.1\r\nHost: l\r\n\r\n",
               b"GET /a%ff HTTP/1.1\r\nHost: l\r\n\r\n", b"GET //// HTTP/1.1\r\nHost: l\r\n\r\n",
               b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"]


def test_what_is_no_request_is_4xx_or_closed(impatient):
    def reply(text):
        with impatient.connect() as c:
            c.sendall(text)
            try:
                return c.recv(1000)
            except ConnectionResetError:
                return b""

    with ThreadPoolExecutor(len(NO_REQUESTS)) as pool:  # some are taken for the beginning of one until time is up
        for text, got in zip(NO_REQUESTS, pool.map(reply, NO_REQUESTS)):
            assert got == b"" or got[9:12] in (b"400", b"404", b"405", b"501", b"505"), (text, got)
    assert impatient.get("/health").status == 200


def cpu_s(pid):
    with open(f"/proc/{pid}/stat") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_ten_thousand_idle_connections_cost_little():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    n = min(IDLE_CONNECTIONS, hard - 200)
    if n < IDLE_CONNECTIONS:
        print(f"only {n} connections: the limit of open files is {hard}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, n + 200), hard))
    try:
        with Server("--max-connections", "20000") as s:
            before = memory_kb(s.pid)
            held = []
            for i in range(n):
                c = socket.socket()
                c.bind((f"127.0.0.{2 + i // 20000}", 0))
                c.connect(("127.0.0.1", s.port))
                held.append(c)
            s.wait_until(lambda: s.get("/health").status == 200)
            per_connection = (memory_kb(s.pid) - before) / n
            assert per_connection < 40, f"{per_connection} KiB each"
            used = cpu_s(s.pid)
            time.sleep(1)
            assert cpu_s(s.pid) - used < 0.5
            for c in held:
                c.close()
            s.wait_until(lambda: s.get("/health").status == 200)
            assert s.post("/completion", {"prompt": "a", "n_predict": 1}).status == 200
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_memory_is_flat_over_many_requests():
    body = json.dumps({"prompt": "The capital of France is", "n_predict": 1}).encode()
    with Server() as s, s.connect() as c:
        def ask(n):
            for _ in range(n):
                c.sendall(raw_request("POST", "/completion", body, connection="keep-alive"))
                head, rest = read_until(c, b"\r\n\r\n").split(b"\r\n\r\n", 1)
                length = int(next(x.split(b":")[1] for x in head.split(b"\r\n") if x.startswith(b"Content-Length")))
                while len(rest) < length:
                    rest += c.recv(65536)

        ask(100)  # one after the other: several at a time would take pages of the cache that none has touched
        before = memory_kb(s.pid)
        ask(200)
        assert memory_kb(s.pid) - before < 2000  # 10 KiB a request would show


def test_an_idle_server_uses_no_cpu(patient):
    patient.post("/completion", {"prompt": "a", "n_predict": 1})
    time.sleep(0.3)
    used = cpu_s(patient.pid)
    time.sleep(2)
    assert cpu_s(patient.pid) - used < 0.1  # of 2 s; a thread that spins would use all of them
