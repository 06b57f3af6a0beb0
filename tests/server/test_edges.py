"""HTTPS, signals and traces, and one client's long prompt beside another's stream."""
import json
import re
import shutil
import signal
import ssl
import subprocess
import threading
import urllib.error
import urllib.request

import pytest

from server import SMOLLM2, Server, needs_smollm2, raw_request, read_all, read_until, run

pytestmark = needs_smollm2

TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """Files of a certificate for localhost and its key."""
    if not shutil.which("openssl"):
        pytest.skip("openssl is not installed")
    folder = tmp_path_factory.mktemp("tls")
    cert, key = folder / "cert.pem", folder / "key.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days",
                    "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", cert],
                   check=True, capture_output=True)
    return cert, key


def test_https(certificate):
    cert, key = certificate
    with Server("--ssl-cert-file", cert, "--ssl-key-file", key, wait=False) as s:
        assert s.url.startswith("https://")
        context = ssl.create_default_context(cafile=cert)

        def ask(path, body=None):
            data = None if body is None else json.dumps(body).encode()
            with urllib.request.urlopen(urllib.request.Request(s.url + path, data=data), context=context) as r:
                return r.read()

        while True:
            try:
                ask("/readyz")
                break
            except urllib.error.HTTPError as error:
                assert error.code == 503
        body = {"prompt": "a", "n_predict": 20, "ignore_eos": True}
        assert json.loads(ask("/completion", body))["tokens_predicted"] == 20
        assert ask("/completion", {**body, "stream": True}).count(b"data: ") >= 2
        with s.connect() as plain:
            plain.sendall(raw_request("GET", "/health"))
            try:
                assert not plain.recv(100).startswith(b"HTTP")
            except ConnectionResetError:
                pass


def test_a_certificate_that_is_none(certificate, tmp_path):
    wrong = tmp_path / "cert.pem"
    wrong.write_text("no certificate")
    r = run("serve", "-m", SMOLLM2, "--port", "0", "--ssl-cert-file", wrong, "--ssl-key-file", certificate[1])
    assert r.returncode == 1 and "tls_certificate" in r.stderr


def test_keys_are_read_again(tmp_path):
    keys = tmp_path / "keys"

    def new_key(name):
        """The token of a new key, and its line for the file."""
        r = run("key", name)
        assert r.returncode == 0, r.stderr
        return r.stderr.strip(), r.stdout

    old, old_line = new_key("old")
    new, new_line = new_key("new")
    keys.write_text(old_line)
    with Server("--api-key-file", keys) as s:

        def status(token):
            return s.get("/v1/models", headers={"Authorization": f"Bearer {token}"}).status

        assert (status(old), status(new)) == (200, 401)
        keys.write_text(new_line)
        s.process.send_signal(signal.SIGHUP)
        s.wait_until(lambda: status(new) == 200)
        assert status(old) == 401
        keys.write_text("nonsense that is no key\n")
        s.process.send_signal(signal.SIGHUP)
        s.wait_until(lambda: "the keys are as they were" in s.error_text())
        assert status(new) == 200


@pytest.fixture(scope="module")
def server():
    with Server() as s:
        yield s


def test_a_trace_is_passed_through(server):
    assert server.get("/health", headers={"traceparent": TRACE}).headers["traceparent"] == TRACE
    assert server.get("/health").headers["traceparent"] is None


def contents(stream):
    """The texts of a stream's events, as far as they are whole."""
    lines = re.findall(rb"data: (\{.*\})\n\n", re.sub(rb"\r\n[0-9a-f]+\r\n", b"", stream))
    return [json.loads(line)["content"] for line in lines]


def test_a_stream_goes_on_beside_long_prompts(server):
    """Their prompts are computed in pieces, between which the other's tokens come, and whoever has a short prompt is answered."""
    fields, n_long = {"ignore_eos": True, "temperature": 0}, 2
    body = json.dumps({**fields, "prompt": "Once", "n_predict": 1500, "stream": True}).encode()
    long = [{**fields, "prompt": f"{i} " + "a b c d " * 150, "n_predict": 3} for i in range(n_long)]
    alone = [server.post("/completion", {**f, "cache_salt": "alone"}).json()["content"] for f in long]
    with server.connect() as a:
        a.sendall(raw_request("POST", "/completion", body))
        got = read_until(a, b"data: ")
        reply, short = {}, []
        threads = [threading.Thread(target=lambda i=i: reply.update({i: server.post("/completion", long[i]).json()})) for i in range(n_long)]
        for t in threads:
            t.start()
        server.wait_until(lambda: server.load() == 1 + n_long or reply)
        while len(reply) < n_long:
            short += [len(reply)] if server.post("/completion", {**fields, "prompt": f"{len(short)}", "n_predict": 1}).status == 200 else []
            got += a.recv(65536)
        n_events = len(contents(got))
    for t in threads:
        t.join()
    assert [reply[i]["content"] for i in range(n_long)] == alone
    assert all(r["tokens_evaluated"] > 500 for r in reply.values())
    assert n_events >= 2 and short[0] < n_long  # some came before the last of the long ones
    whole = server.post("/completion", {**fields, "prompt": "Once", "n_predict": n_events}).json()["content"]
    assert whole.startswith("".join(contents(got)).rstrip("\ufffd"))


def test_two_requests_sent_at_once_are_answered_in_order(server):
    body = json.dumps({"prompt": "a", "n_predict": 2, "ignore_eos": True}).encode()
    with server.connect() as c:
        c.sendall(raw_request("POST", "/completion", body, connection="keep-alive") + raw_request("GET", "/livez"))
        replies = read_all(c)
    assert replies.count(b"HTTP/1.1 200") == 2
    assert replies.index(b'"tokens_predicted"') < replies.index(b'{"status":"ok"}')
