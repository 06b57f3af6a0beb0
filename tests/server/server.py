"""`millrace serve` as a process of a test: on a free port, ended by its id."""
import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent / "cli"))

from program import GEMMA, MILLRACE, PATIENCE_S, SMOLLM2, needs_gemma, needs_smollm2, run  # noqa: E402,F401

# A context and a batch that fit small machines; later options win.
OPTIONS = ("--port", "0", "-c", "2048", "--max-batch-size", "8")


class Reply:
    """What urllib got: .status, .headers, .body (bytes), .json()."""

    def __init__(self, response):
        self.status = response.status
        self.headers = response.headers
        self.body = response.read()

    def json(self):
        return json.loads(self.body)


class Server:
    """with Server("--api-key", "secret") as s: s.get("/v1/models").json()"""

    def __init__(self, *options, model=SMOLLM2, wait=True, env=None, scheme="http"):
        self.errors = tempfile.TemporaryFile("w+")
        command = [MILLRACE, "serve", *(("-m", model) if model else ()), *OPTIONS, *options]
        self.process = subprocess.Popen([str(c) for c in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=self.errors, env=None if env is None else {**os.environ, **env})
        self.output = b""
        try:
            found = self.expect(rb"listening on (\S+)\n")
            self.url = found[1].decode()
            self.port = int(self.url.rsplit(":", 1)[1])
            if wait:
                self.wait_ready()
        except BaseException:
            self.close()
            raise

    @property
    def pid(self):
        return self.process.pid

    def expect(self, pattern, timeout=PATIENCE_S):
        """Read standard output until it holds the pattern; returns the match and forgets what is before its end."""
        deadline = time.monotonic() + timeout
        while not (found := re.search(pattern, self.output)):
            if not select.select([self.process.stdout], [], [], max(0, deadline - time.monotonic()))[0]:
                raise AssertionError(f"no {pattern!r} in {self.output[-2000:]!r}")
            piece = os.read(self.process.stdout.fileno(), 65536)
            if not piece:
                raise AssertionError(f"ended with {self.process.wait()}: {self.output[-2000:]!r} {self.error_text()}")
            self.output += piece
        self.output = self.output[found.end():]
        return found

    def error_text(self):
        self.errors.seek(0)
        return self.errors.read()

    def wait_ready(self, timeout=PATIENCE_S):
        deadline = time.monotonic() + timeout
        while self.get("/readyz").status != 200:
            assert self.process.poll() is None, f"ended with {self.process.returncode}: {self.error_text()}"
            assert time.monotonic() < deadline, "never ready"
            time.sleep(0.05)

    def request(self, method, path, body=None, headers=None, timeout=PATIENCE_S):
        """One request on a connection of its own. body: bytes, or what becomes JSON. Any status is a Reply."""
        headers = dict(headers or {})
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
            headers.setdefault("Content-Type", "application/json")
        request = urllib.request.Request(self.url + path, data=body, headers=headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=timeout) as response:
                return Reply(response)
        except urllib.error.HTTPError as error:
            with error:
                return Reply(error)

    def get(self, path, **options):
        return self.request("GET", path, **options)

    def post(self, path, body, **options):
        return self.request("POST", path, body, **options)

    def connect(self, timeout=PATIENCE_S):
        """A bare TCP connection."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=timeout)

    def load(self):
        """Requests that run or wait."""
        return self.get("/load").json()["server_load"]

    def wait_until(self, condition, timeout=PATIENCE_S):
        deadline = time.monotonic() + timeout
        while not condition():
            assert time.monotonic() < deadline, "it never came to pass"
            time.sleep(0.02)

    def end(self, sig=signal.SIGTERM, timeout=PATIENCE_S):
        """Exit status after a signal."""
        self.process.send_signal(sig)
        status = self.process.wait(timeout)
        self.output += self.process.stdout.read()
        return status

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.errors.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def memory_kb(pid):
    """Resident memory of a process."""
    with open(f"/proc/{pid}/status") as f:
        return int(next(line.split()[1] for line in f if line.startswith("VmRSS")))


def raw_request(method, path, body=b"", headers=(), connection="close"):
    """The bytes of a request."""
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", f"Connection: {connection}", *headers]
    if body or method == "POST":
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def read_all(s):
    """Everything until the other side closes."""
    pieces = []
    while piece := s.recv(65536):
        pieces.append(piece)
    return b"".join(pieces)


def read_until(s, text):
    """Bytes up to and with this text."""
    got = b""
    while text not in got:
        piece = s.recv(65536)
        assert piece, f"closed before {text!r}: {got[-500:]!r}"
        got += piece
    return got


def processes(server):
    """Ids of the engine processes, in the order in which they were started."""
    found = []
    for task in os.listdir(f"/proc/{server.pid}/task"):
        with open(f"/proc/{server.pid}/task/{task}/children") as children:
            found += map(int, children.read().split())
    return sorted(found)
