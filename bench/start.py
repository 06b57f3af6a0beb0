#!/usr/bin/env python3
"""How long until the first token, from each kind of start, into docs/serving.md and docs/start.svg.

    bench/start.py models/SmolLM2-135M-Instruct.Q4_1.gguf [--rounds 7] [--millrace build/millrace]

Each round makes every start once, in turn. A start is a new server, from the moment it is started to the first token of a streamed answer of a client
that asks again until it is let in; a take-over is from `kill -9` of the only active engine process to the first token of the next answer; a switch is from the request for
a model to its first token, while another is the only one that may be loaded. Cold: the model file's pages are given back to the system before (posix_fadvise DONTNEED, which
needs no rights; how many stayed is asked by mincore and told); the program's own pages stay. build/start.json keeps what was measured: without a model
the page is written again from it."""
import argparse
import ctypes
import http.client
import json
import mmap
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

from page import ROOT, cpu_name, draw, write_part

PATIENCE_S = 300
CASES = ("cold file", "warm file", "packed file, cold", "packed file, warm", "switch of model, file", "switch of model, packed file",
         "standby takes over", "process started anew")


def resident_share(path):
    """Of the file's pages, those in the page cache."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mincore.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.POINTER(ctypes.c_ubyte))
    with open(path, "rb") as f, mmap.mmap(f.fileno(), 0, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE) as m:
        n = (len(m) + mmap.PAGESIZE - 1) // mmap.PAGESIZE
        seen = (ctypes.c_ubyte * n)()
        held = ctypes.c_char.from_buffer(m)
        if libc.mincore(ctypes.addressof(held), len(m), seen) != 0:
            return float("nan")
        del held
        return sum(byte & 1 for byte in seen) / n


def drop(path):
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)
    return resident_share(path)


def read_whole(path):
    with open(path, "rb") as f:
        while f.read(1 << 22):
            pass


def first_token_ms(port, begin, model=None):
    """From begin to the first event of a stream."""
    body = json.dumps({"prompt": "The capital of France is", "max_tokens": 4, "stream": True, **({"model": model} if model else {})})
    while True:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
        connection.request("POST", "/v1/completions", body, {"Content-Type": "application/json"})
        reply = connection.getresponse()
        if reply.status == 200:
            line = reply.readline()
            elapsed = 1e3 * (time.monotonic() - begin)
            reply.read()
            connection.close()
            if not line.startswith(b"data: {") or b'"error"' in line:
                raise RuntimeError(f"no token: {line!r}")
            return elapsed
        text = reply.read()
        connection.close()
        if reply.status != 503 or time.monotonic() - begin > PATIENCE_S:
            raise RuntimeError(f"status {reply.status}: {text[:200]!r}")
        time.sleep(0.002)


@contextmanager
def server(a, *options):
    """(process, port, when it was started)."""
    begin = time.monotonic()
    process = subprocess.Popen([a.millrace, "serve", "--port", "0", "-c", "2048", *map(str, options)], stdout=subprocess.PIPE)
    try:
        yield process, int(process.stdout.readline().rsplit(b":", 1)[1]), begin
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()


def start(a, path):
    with server(a, "-m", path) as (_, port, begin):
        return first_token_ms(port, begin)


def switch(a, path):
    """To a model whose file has been read before, the first answer of which has been given before, too."""
    with server(a, "--models", f"one={path}", "--models", f"two={path}", "--models-max", 1) as (_, port, begin):
        for name in ("one", "two"):
            first_token_ms(port, time.monotonic(), name)
        return first_token_ms(port, time.monotonic(), "one")


def engines(process):
    return sorted(int(pid) for task in os.listdir(f"/proc/{process.pid}/task")
                  for pid in open(f"/proc/{process.pid}/task/{task}/children").read().split())


def standbys(port):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    connection.request("GET", "/metrics")
    for line in connection.getresponse().read().decode().splitlines():
        if line.startswith("millrace_engine_processes{") and 'role="standby"' in line:
            return float(line.rsplit(" ", 1)[1])
    return 0


def take_over(a, path, standby):
    with server(a, "-m", path, "--warm-active", 1, "--warm-standby", 1) as (process, port, begin):
        first_token_ms(port, begin)
        while standbys(port) < 1:
            time.sleep(0.01)
        victims = engines(process) if not standby else engines(process)[:1]
        begin = time.monotonic()
        for pid in victims:
            os.kill(pid, signal.SIGKILL)
        return first_token_ms(port, begin)


def measure_round(a, packed, times, left):
    left["cold file"].append(drop(a.model))
    times["cold file"].append(start(a, a.model))
    read_whole(a.model)
    times["warm file"].append(start(a, a.model))
    left["packed file, cold"].append(drop(packed))
    times["packed file, cold"].append(start(a, packed))
    read_whole(packed)
    times["packed file, warm"].append(start(a, packed))
    times["switch of model, file"].append(switch(a, a.model))
    times["switch of model, packed file"].append(switch(a, packed))
    times["standby takes over"].append(take_over(a, packed, True))
    times["process started anew"].append(take_over(a, packed, False))


def measure(a):
    times, left = {name: [] for name in CASES}, {name: [] for name in CASES}
    with tempfile.TemporaryDirectory(dir=a.model.resolve().parent) as folder:
        packed = Path(folder) / "packed.gguf"
        subprocess.run([a.millrace, "pack", a.model, packed], check=True, stdout=sys.stderr)
        for number in range(a.rounds):
            measure_round(a, packed, times, left)
            print(f"round {number + 1} of {a.rounds}: " + ", ".join(f"{k} {v[-1]:.0f}" for k, v in times.items()), file=sys.stderr)
    return {"model": a.model.name, "bytes": a.model.stat().st_size, "cpu": cpu_name(), "threads": len(os.sched_getaffinity(0)), "rounds": a.rounds,
            "times_ms": times, "left_in_cache": {k: max(v) for k, v in left.items() if v}}


def table(m):
    warm = statistics.median(m["times_ms"]["warm file"])
    lines = [f"{m['model']} ({m['bytes'] / 1e6:.0f} MB), {m['cpu']}, {m['threads']} threads, {m['rounds']} rounds in turn; milliseconds to the first token.", "",
             "| start | median | fastest | slowest | of the warm file's |", "|---|---|---|---|---|"]
    for name in CASES:
        t = m["times_ms"][name]
        lines.append(f"| {name} | {statistics.median(t):,.0f} | {min(t):,.0f} | {max(t):,.0f} | {statistics.median(t) / warm:.2f} |")
    share = max(m["left_in_cache"].values())
    return "\n".join(lines + ["", f"Before a cold start the file's pages were given back to the system; at most {100 * share:.0f} % of them were still there.", "",
                              "![milliseconds to the first token](start.svg)"])


PLOT = """
names = list(d["times_ms"])[::-1]
fig, axis = plt.subplots(figsize=(9, 3.4))
for i, name in enumerate(names):
    t = sorted(d["times_ms"][name])
    axis.barh(i, t[len(t) // 2], 0.6, color="C0")
    axis.plot(t, [i] * len(t), "k|", markersize=8)
axis.axvline(200, color="C1", linewidth=1)
axis.set_yticks(range(len(names)), names)
axis.set_xlabel("milliseconds to the first token: median, each round a mark; line: 200 ms")
axis.spines[["top", "right"]].set_visible(False)
fig.tight_layout()
"""


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model", nargs="?", type=Path)
    p.add_argument("--millrace", default=str(ROOT / "build/millrace"))
    p.add_argument("--rounds", type=int, default=7)
    p.add_argument("--output", type=Path, default=ROOT / "docs")
    a = p.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the server is ended, too
    kept = ROOT / "build/start.json"
    if a.model is not None:
        measured = measure(a)
        kept.parent.mkdir(exist_ok=True)
        kept.write_text(json.dumps(measured, indent=1))
    measured = json.loads(kept.read_text())
    write_part(a.output / "serving.md", "bench/start.py", table(measured))
    draw(PLOT, measured, a.output / "start.svg")


if __name__ == "__main__":
    main()
