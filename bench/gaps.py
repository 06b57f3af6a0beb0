#!/usr/bin/env python3
"""Gaps between the tokens of 8 streams while a long prompt arrives, beside llama.cpp's server, into its part of docs/engine.md.

    bench/gaps.py models/SmolLM2-135M-Instruct.Q4_1.gguf [--long-prompt 6000] [--itl-target 150]

llama.cpp runs from the PyPI package that bench/peers.py installs. build/gaps.json keeps the figures: without a model the page is written
again from it."""
import argparse
import json
import os
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

from page import ROOT, cpu_name, write_part
from peers import hand_back, run_in_venv

TIMEOUT_S = 900


def quantile(values, q):
    values = sorted(values)
    return values[min(len(values) - 1, int(q * len(values)))]


def run_millrace(a, target):
    command = [a.millrace, "bench", "--engine", "-m", str(a.model), "-c", str(a.ctx), "--requests", str(a.streams), "--prompt", "20",
               "--gen", str(a.gen), "--long-prompt", str(a.long_prompt), "--max-running", str(a.streams + 1), "--warm-up", str(a.streams),
               "--itl-target", str(target), "-t", str(a.threads)]
    r = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=TIMEOUT_S).stdout)
    return {"p50": r["itl_ms"]["p50"], "p99": r["itl_ms"]["p99"], "most": r["itl_ms"]["max"]}


def run_llama_cpp(a):
    """In a process of its own, under the peers' Python."""
    import urllib.request

    import xllamacpp
    p = xllamacpp.CommonParams()
    p.model.path = str(a.model)
    p.cpuparams.n_threads = p.cpuparams_batch.n_threads = a.threads
    p.n_parallel = a.streams + 1
    p.n_ctx = p.n_parallel * a.ctx
    server = xllamacpp.Server(p)

    def stream(seed, n_prompt, n, times):
        body = {"prompt": [(i * 7919 + seed * 104729) % 30000 + 100 for i in range(n_prompt)], "n_predict": n, "ignore_eos": True,
                "temperature": 0, "cache_prompt": False, "stream": True}
        request = urllib.request.Request(server.listening_address + "/completion", json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        for line in urllib.request.urlopen(request):
            if line.startswith(b"data: ") and not json.loads(line[6:]).get("stop"):
                times.append(time.perf_counter())

    stream(0, 20, 4, [])
    times = [[] for _ in range(a.streams + 1)]
    threads = [threading.Thread(target=stream, args=(i + 1, 20, a.gen, times[i])) for i in range(a.streams)]
    for t in threads:
        t.start()
    while any(len(t) < a.gen // 8 for t in times[:a.streams]):
        time.sleep(0.01)
    threads.append(threading.Thread(target=stream, args=(99, a.long_prompt, 1, times[-1])))
    threads[-1].start()
    for t in threads:
        t.join()
    gaps = [1000 * (later - earlier) for of in times[:a.streams] for earlier, later in zip(of, of[1:])]
    return {"p50": statistics.median(gaps), "p99": quantile(gaps, 0.99), "most": max(gaps)}


def in_venv(a):
    return run_in_venv(__file__, a.model, "--only-llama-cpp", "--streams", a.streams, "--gen", a.gen, "--ctx", a.ctx, "--long-prompt",
                       a.long_prompt, "--threads", a.threads, timeout=TIMEOUT_S)


def table(m):
    lines = [f"{m['model']}: {m['streams']} streams, a prompt of {m['long_prompt']:,} tokens arrives among them; gaps between two tokens of a "
             f"stream, milliseconds. {m['cpu']}.", "", "| engine | median | 99th percentile | longest |", "|---|---|---|---|"]
    for name, f in m["figures"].items():
        lines.append(f"| {name} | " + ("- | - | - |" if f is None else f"{f['p50']:,.0f} | {f['p99']:,.0f} | {f['most']:,.0f} |"))
    return "\n".join(lines)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model", nargs="?", type=Path)
    p.add_argument("--millrace", default=str(ROOT / "build/millrace"))
    p.add_argument("--streams", type=int, default=8)
    p.add_argument("--gen", type=int, default=400)
    p.add_argument("--ctx", type=int, default=8192)
    p.add_argument("--long-prompt", type=int, default=6000)
    p.add_argument("--itl-target", type=int, default=150)
    p.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    p.add_argument("--output", type=Path, default=ROOT / "docs")
    p.add_argument("--only-llama-cpp", action="store_true", help=argparse.SUPPRESS)
    a = p.parse_args()
    if a.only_llama_cpp:
        hand_back(lambda: run_llama_cpp(a))
    kept = ROOT / "build/gaps.json"
    if a.model is not None:
        figures = {}
        for name, run in ((f"millrace, `--itl-target {a.itl_target}`", lambda: run_millrace(a, a.itl_target)),
                          ("millrace, `--itl-target 0`", lambda: run_millrace(a, 0)), ("llama.cpp", lambda: in_venv(a))):
            print(name, file=sys.stderr)
            figures[name] = run()
        kept.write_text(json.dumps({"model": a.model.name, "streams": a.streams, "long_prompt": a.long_prompt, "cpu": cpu_name(),
                                    "figures": figures}))
    write_part(a.output / "engine.md", "bench/gaps.py", table(json.loads(kept.read_text())))


if __name__ == "__main__":
    main()
