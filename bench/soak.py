#!/usr/bin/env python3
"""Does memory stay flat? Users of all kinds for a long time; the server's resident memory, into docs/serving.md and docs/soak.svg.

    bench/soak.py models/SmolLM2-135M-Instruct.Q4_1.gguf [--minutes 60] [--users 12]

Each user asks again and again for something else, chosen by a seeded generator: chats that stream, real conversations, completions with several
answers, constrained answers, embeddings, token counts, prompts of thousands of tokens, requests that are wrong, and clients that leave in the
middle. Memory is judged from a tenth of the time on, when caches and buffers have been filled. build/soak.json keeps what was measured: without
a model the page is written again from it."""
import argparse
import json
import os
import random
import socket
import sys
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

from load import read_conversations
from page import ROOT, cpu_name, draw, write_part
from serving import running

SAMPLE_S = 5
TIMEOUT_S = 300
SCHEMA = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 20}, "age": {"type": "integer"}}, "required": ["name", "age"]}


def ask(url, path, body):
    """Reads the whole reply; its status."""
    request = urllib.request.Request(url + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as reply:
            while reply.read(65536):
                pass
            return reply.status
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def leave(url, path, body, after_s):
    """Begin a stream, and go away in the middle of it."""
    host, port = url.removeprefix("http://").split(":")
    data = json.dumps(body).encode()
    with socket.create_connection((host, int(port)), timeout=TIMEOUT_S) as c:
        c.sendall(b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % (path.encode(), len(data)) + data)
        c.settimeout(after_s)
        try:
            while c.recv(65536):
                pass
        except TimeoutError:
            pass


class Soak:
    def __init__(self, url, conversations, a):
        self.url, self.conversations, self.a = url, conversations, a
        self.end = time.monotonic() + a.seconds
        self.lock = threading.Lock()
        self.done = {}

    def kinds(self, r):
        """name: (share, what to do); what returns the statuses that are right"""
        messages, n = r.choice(r.choice(self.conversations))
        text = messages[-1]["content"]
        chat = {"messages": messages, "max_tokens": min(n, 128), "stream": True, "seed": r.randrange(1 << 30)}
        return {
            "chat": (8, lambda: ask(self.url, "/v1/chat/completions", chat), 200),
            "pair of answers": (2, lambda: ask(self.url, "/v1/completions", {"prompt": text[:500], "max_tokens": 24, "n": 2, "logprobs": 2}), 200),
            "schema": (2, lambda: ask(self.url, "/v1/chat/completions", {"messages": messages[-1:], "max_tokens": 60, "response_format": {
                "type": "json_schema", "json_schema": {"name": "p", "schema": SCHEMA}}}), 200),
            "embedding": (2, lambda: ask(self.url, "/v1/embeddings", {"input": [text[:800], str(r.random())]}), 200),
            "tokens": (2, lambda: ask(self.url, "/tokenize", {"content": text}), 200),
            "long prompt": (1, lambda: ask(self.url, "/v1/completions", {"prompt": f"{r.random()} " + "word and word " * r.randrange(200, 900),
                                                                         "max_tokens": 4}), 200),
            "wrong": (1, lambda: ask(self.url, "/v1/chat/completions", {"messages": messages, "temperature": "hot"}), 400),
            "leaves": (2, lambda: leave(self.url, "/v1/chat/completions", {**chat, "max_tokens": 400}, r.uniform(0.05, 3)), None),
        }

    def user(self, seed):
        r = random.Random(seed)
        while time.monotonic() < self.end:
            kinds = self.kinds(r)
            name = r.choices(list(kinds), [k[0] for k in kinds.values()])[0]
            try:
                status = kinds[name][1]()
            except OSError as error:
                status = str(error)
            key = name if status == kinds[name][2] else f"{name}: {status}"
            with self.lock:
                self.done[key] = self.done.get(key, 0) + 1

    def run(self, pid):
        begin, samples = time.monotonic(), []
        users = [threading.Thread(target=self.user, args=(i,), daemon=True) for i in range(self.a.users)]
        for thread in users:
            thread.start()
        while time.monotonic() < self.end:
            samples.append((time.monotonic() - begin, resident_mb(pid)))
            time.sleep(SAMPLE_S)
        for thread in users:
            thread.join(TIMEOUT_S)
        return samples


def resident_mb(pid):
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def measure(a):
    a.places = a.users
    with running("millrace", a, ["--kv-tokens", str(a.kv_tokens)]) as (url, _, pid):
        soak = Soak(url, read_conversations(a.conversations, 400), a)
        samples = soak.run(pid)
    return {"model": a.model.name, "cpu": cpu_name(), "users": a.users, "seconds": a.seconds, "samples": samples, "done": soak.done}


def judged(samples, seconds):
    """Memory at a tenth of the time, at the end, and the most between."""
    late = [mb for at, mb in samples if at >= seconds / 10]
    return late[0], late[-1], max(late)


def table(m):
    first, last, most = judged(m["samples"], m["seconds"])
    right = {name: n for name, n in m["done"].items() if ":" not in name}
    wrong = {name: n for name, n in m["done"].items() if ":" in name}
    return "\n".join([
        f"{m['model']}, {m['cpu']}: {m['users']} users for {m['seconds'] / 60:,.0f} minutes, {sum(m['done'].values()):,} requests: "
        + ", ".join(f"{name} {n:,}" for name, n in right.items()) + ". "
        + ("None failed." if not wrong else "Not as they should have ended: " + ", ".join(f"{n:,} {name}" for name, n in wrong.items()) + "."),
        "", f"Resident memory: {first:,.1f} MB at {m['seconds'] / 600:,.0f} minutes, {last:,.1f} MB at the end, at most {most:,.1f} MB between.", "",
        "![resident memory over time](soak.svg)"])


PLOT = """
fig, axis = plt.subplots(figsize=(9, 2.4))
axis.plot([at / 60 for at, _ in d["samples"]], [mb for _, mb in d["samples"]])
axis.set_ylim(bottom=0)
axis.set_xlabel("minutes")
axis.set_title("resident memory, MB", fontsize=10)
axis.spines[["top", "right"]].set_visible(False)
fig.tight_layout()
"""


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model", nargs="?", type=Path)
    p.add_argument("--millrace", default=str(ROOT / "build/millrace"))
    p.add_argument("--minutes", type=float, default=60)
    p.add_argument("--users", type=int, default=12)
    p.add_argument("--ctx", type=int, default=4096)
    p.add_argument("--kv-tokens", type=int, default=24576)
    p.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    p.add_argument("--conversations", type=Path, default=ROOT / "models/sharegpt.json")
    p.add_argument("--output", type=Path, default=ROOT / "docs")
    a = p.parse_args()
    a.seconds = 60 * a.minutes
    kept = ROOT / "build/soak.json"
    if a.model is not None:
        kept.write_text(json.dumps(measure(a)))
    m = json.loads(kept.read_text())
    write_part(a.output / "serving.md", "bench/soak.py", table(m))
    draw(PLOT, m, a.output / "soak.svg")
    first, last, _ = judged(m["samples"], m["seconds"])
    print(f"{first:.1f} -> {last:.1f} MB, {m['done']}", file=sys.stderr)


if __name__ == "__main__":
    main()
