"""The program under test, its models, and a terminal to run it in."""
import os
import pty
import re
import select
import signal
import subprocess
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MILLRACE = os.environ.get("MILLRACE", str(ROOT / "build/release/millrace"))
SMOLLM2 = ROOT / "models/SmolLM2-135M-Instruct.Q4_1.gguf"
GEMMA = ROOT / "models/gemma-3-270m-q4_k_m.gguf"

needs_smollm2 = pytest.mark.skipif(not SMOLLM2.exists(), reason="models/ lacks SmolLM2: scripts/fetch_models.py smollm2")
needs_gemma = pytest.mark.skipif(not GEMMA.exists(), reason="models/ lacks Gemma: scripts/fetch_models.py gemma3")


# Waits are bounded so that a hang becomes a failure; a machine under any load stays far below.
PATIENCE_S = 1800


def run(*args, stdin=subprocess.DEVNULL, input=None, timeout=PATIENCE_S, env=None, text=True):
    """Run `millrace args...`; input goes in through a pipe."""
    if input is not None:
        stdin = None
    return subprocess.run([MILLRACE, *map(str, args)], stdin=stdin, input=input, capture_output=True, text=text,
                          timeout=timeout, env=None if env is None else {**os.environ, **env})


class Terminal:
    """The program on a terminal of its own; what it prints collects in .output."""

    def __init__(self, *args, env=None):
        self.output = ""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ.update(env or {}, TERM="xterm")
            os.execv(MILLRACE, [MILLRACE, *map(str, args)])

    def expect(self, pattern, timeout=PATIENCE_S):
        """Wait until the output holds the pattern; returns the output up to its end and forgets it."""
        deadline = time.monotonic() + timeout
        while not (found := re.search(pattern, self.output)):
            if not self._read(deadline):
                raise AssertionError(f"no {pattern!r} at the end of {self.output[-2000:]!r}")
        before, self.output = self.output[:found.end()], self.output[found.end():]
        return before

    def _read(self, deadline):
        if not select.select([self.fd], [], [], max(0, deadline - time.monotonic()))[0]:
            return False
        try:
            piece = os.read(self.fd, 65536)
        except OSError:  # the other side is closed
            return False
        self.output += piece.decode(errors="replace")
        return bool(piece)

    def type(self, text):
        os.write(self.fd, text.encode())

    def stop_while_it_loads(self, model):
        """Stop the program once it has the model file open, unless it ends before that is seen."""
        while str(model.resolve()) not in self._open_files():
            if os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                return
        os.kill(self.pid, signal.SIGSTOP)

    def _open_files(self):
        folder, names = f"/proc/{self.pid}/fd", []
        try:
            for fd in os.listdir(folder):
                names.append(os.readlink(f"{folder}/{fd}"))
        except OSError:  # closed in the meantime
            pass
        return names

    def go_on(self):
        os.kill(self.pid, signal.SIGCONT)

    def wait(self, timeout=PATIENCE_S):
        """Exit status once the program has ended."""
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            self._read(time.monotonic() + 0.05)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.pid = 0
                return os.waitstatus_to_exitcode(status)
        raise AssertionError(f"still running: {self.output!r}")

    def close(self):
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.fd)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
