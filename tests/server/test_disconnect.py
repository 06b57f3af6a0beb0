"""A client that leaves takes its requests along, wherever they are, and nobody else's."""
import json
import re
import socket
import struct
import threading
import time

import pytest

from server import Server, memory_kb, needs_smollm2, raw_request, read_until

pytestmark = needs_smollm2

LONG = {"prompt": "Once upon a time", "n_predict": 1900, "ignore_eos": True, "temperature": 0}


@pytest.fixture(scope="module")
def server():
    with Server() as s:
        yield s
        assert s.process.poll() is None, s.error_text()


@pytest.fixture(scope="module")
def one_slot():
    with Server("--max-batch-size", "1") as s:
        yield s


def count(server, series):
    return sum(float(v) for v in re.findall(rf"^millrace_{series}.* (\S+)$", server.get("/metrics").body.decode(), re.M))


def ask(server, **fields):
    """A connection on which a request was sent."""
    c = server.connect()
    c.sendall(raw_request("POST", "/completion", json.dumps({**LONG, **fields}).encode()))
    return c


def leave(c, how):
    if how == "reset":
        c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    if how == "half":
        c.shutdown(socket.SHUT_WR)
    else:
        c.close()


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("how", ["close", "reset", "half"])
def test_a_running_request_ends(server, how, stream):
    c = ask(server, stream=stream)
    server.wait_until(lambda: server.load() == 1)
    if stream:
        read_until(c, b"data: ")
    leave(c, how)
    server.wait_until(lambda: server.load() == 0, timeout=30)
    if how == "half":
        assert c.recv(1 << 20) is not None  # closed by the server, which needs no timeout
        c.close()


def test_all_answers_of_one_request_end(server):
    body = json.dumps({"messages": [{"role": "user", "content": "Hi"}], "n": 2, "max_tokens": 1500, "ignore_eos": True,
                       "stream": True}).encode()
    c = server.connect()
    c.sendall(raw_request("POST", "/v1/chat/completions", body))
    server.wait_until(lambda: server.load() == 2)
    leave(c, "close")
    server.wait_until(lambda: server.load() == 0, timeout=30)


def test_many_leave_one_after_the_other(server):
    def leave_early(n):
        for i in range(n):
            leave(ask(server, stream=i % 2 == 0), ("close", "reset", "half")[i % 3])
        server.wait_until(lambda: server.load() == 0, timeout=30)
        server.wait_until(lambda: count(server, "requests_in_flight") == 0)

    leave_early(50)
    resident, cancelled = memory_kb(server.pid), count(server, 'requests_total{.*outcome="cancelled"')
    leave_early(150)
    assert count(server, 'requests_total{.*outcome="cancelled"') > cancelled + 50  # some are gone before they are read
    assert memory_kb(server.pid) - resident < 4000
    assert server.post("/completion", {**LONG, "n_predict": 3}).json()["tokens_predicted"] == 3


def test_a_waiting_request_leaves_the_running_one_alone(one_slot):
    alone = one_slot.post("/completion", {**LONG, "n_predict": 150}).json()["content"]
    answer = []
    first = threading.Thread(target=lambda: answer.append(one_slot.post("/completion", {**LONG, "n_predict": 150}).json()))
    first.start()
    one_slot.wait_until(lambda: one_slot.load() == 1)
    second, third = ask(one_slot, stream=True), ask(one_slot, n_predict=5)
    one_slot.wait_until(lambda: one_slot.load() == 3)
    leave(second, "close")
    one_slot.wait_until(lambda: one_slot.load() <= 2)
    assert not answer or answer[0]["content"] == alone
    reply = read_until(third, b'"tokens_predicted":5')
    assert reply.startswith(b"HTTP/1.1 200")
    first.join()
    assert answer[0]["content"] == alone
    third.close()


def test_the_running_one_leaves_and_the_waiting_one_begins(one_slot):
    first = ask(one_slot, stream=True)
    read_until(first, b"data: ")
    second = ask(one_slot, n_predict=5)
    one_slot.wait_until(lambda: one_slot.load() == 2)
    leave(first, "half")
    assert b'"tokens_predicted":5' in read_until(second, b'"tokens_predicted"' + b":5")
    first.close()
    second.close()


def test_a_prompt_that_is_being_computed_ends(server):
    c = ask(server, prompt="word " * 1800, n_predict=1)
    server.wait_until(lambda: server.load() == 1)
    leave(c, "close")
    server.wait_until(lambda: server.load() == 0, timeout=30)


def test_who_leaves_while_a_long_body_is_read(server):
    for _ in range(10):
        c = ask(server, padding="x" * 200000)
        leave(c, "reset")
    server.wait_until(lambda: server.load() == 0, timeout=30)
    assert server.get("/health").status == 200


def test_requests_cut_anywhere(server):
    whole = raw_request("POST", "/completion", json.dumps({**LONG, "n_predict": 2}).encode())
    for at in range(0, len(whole), 7):
        with server.connect() as c:
            c.sendall(whole[:at])
    assert server.post("/completion", {**LONG, "n_predict": 2}).status == 200


def test_a_slow_reader_gets_every_byte(server):
    fields = {"n_predict": 120, "stream": True}
    whole = server.post("/completion", {**LONG, "n_predict": 120}).json()["content"]
    c = ask(server, **fields)
    c.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    server.wait_until(lambda: server.load() == 0)
    got = b""
    while piece := c.recv(997):
        got += piece
        time.sleep(0.001)
    c.close()
    text, rest = "", got.split(b"\r\n\r\n", 1)[1]
    body = b""
    while rest:  # chunks
        size, rest = rest.split(b"\r\n", 1)
        body, rest = body + rest[:int(size, 16)], rest[int(size, 16) + 2:]
    for line in body.decode().split("\n\n"):
        if line.startswith("data: "):
            text += json.loads(line[6:])["content"]
    assert text == whole
