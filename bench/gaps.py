#!/usr/bin/env python3
"""Gaps between the tokens of 8 streams while a long prompt arrives, beside the servers of llama.cpp and vLLM, into its part of docs/engine.md.

    bench/gaps.py models/SmolLM2-135M-Instruct.Q4_1.gguf [--long-prompt 6000] [--itl-target 150] [--engines 'llama.cpp;vllm']

The servers and where they come from are those of bench/serving.py. Counted are the gaps that end between the sending of the prompt and its
first token. build/gaps.json keeps the figures, engine by engine: without a model the page is written again from it."""
import argparse
import json
import os
import sys
import threading
import time
import urllib.request
from pathlib import Path

import load
from page import ROOT, cpu_name, write_part
from serving import running

TIMEOUT_S = 900
OURS = "millrace"


def stream(url, model, prompt, n, times):
    """Appends the time of each token."""
    body = {"model": model, "prompt": prompt, "max_tokens": n, "ignore_eos": True, "temperature": 0, "stream": True}
    request = urllib.request.Request(url + "/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=TIMEOUT_S) as reply:
        for line in reply:
            if line.startswith(b"data: {") and any(choice.get("text") for choice in json.loads(line[6:])["choices"]):
                times.append(time.monotonic())


def measure(url, model, a):
    """{"p50", "p99", "most", "first": of the long prompt, "n": gaps}, all in ms."""
    times = [[] for _ in range(a.streams)]
    streams = [threading.Thread(target=stream, daemon=True, args=(url, model, f"The diary of lighthouse keeper number {i + 1}:", a.gen, of))
               for i, of in enumerate(times)]
    for thread in streams:
        thread.start()
    while any(len(of) < a.gen // 8 for of in times) and any(thread.is_alive() for thread in streams):
        time.sleep(0.01)
    begin, first = time.monotonic(), []
    stream(url, model, [(i * 7919 + 104729) % 30000 + 100 for i in range(a.long_prompt)], 4, first)
    for thread in streams:
        thread.join()
    gaps = [later - earlier for of in times for earlier, later in zip(of, of[1:]) if begin < later and earlier < first[0]]
    return {**load.quantiles(gaps), "most": 1000 * max(gaps), "first": 1000 * (first[0] - begin), "n": len(gaps)}


def variants(a):
    """name in the table: (engine, options of ours): without guesses, which bring several tokens at once, a gap is a step."""
    ours = {f"millrace, `--itl-target {target}`": (OURS, ["--itl-target", str(target), "--speculation", "off"]) for target in (a.itl_target, 0)}
    return {**(ours if OURS in a.engines else {}), **{name: (name, []) for name in a.engines if name != OURS}}


def table(m):
    lines = [f"{m['model']}: {m['streams']} streams, a prompt of {m['long_prompt']:,} tokens arrives among them; gaps between two tokens of a "
             f"stream from then to the first token of the prompt's answer, milliseconds. {m['cpu']}.", "",
             "| server | median | 99th percentile | longest | first token of the long prompt |", "|---|---|---|---|---|"]
    for name, f in m["figures"].items():
        lines.append(f"| {name} | {f['p50']:,.0f} | {f['p99']:,.0f} | {f['most']:,.0f} | {f['first']:,.0f} |")
    return "\n".join(lines)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model", nargs="?", type=Path)
    p.add_argument("--millrace", default=str(ROOT / "build/millrace"))
    p.add_argument("--engines", type=lambda s: s.split(";"), default=[OURS, "llama.cpp", "vllm"], help="names with ';' between them")
    p.add_argument("--streams", type=int, default=8)
    p.add_argument("--gen", type=int, default=400)
    p.add_argument("--ctx", type=int, default=8192)
    p.add_argument("--long-prompt", type=int, default=6000)
    p.add_argument("--itl-target", type=int, default=150)
    p.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    p.add_argument("--output", type=Path, default=ROOT / "docs")
    p.add_argument("--vllm-dtype", default="float32")
    p.add_argument("--vllm-options", default="")
    a = p.parse_args()
    a.places = a.streams + 1
    kept = ROOT / "build/gaps.json"
    if a.model is not None:
        m = {"model": a.model.name, "streams": a.streams, "long_prompt": a.long_prompt, "cpu": cpu_name(), "figures": {}}
        old = json.loads(kept.read_text()) if kept.exists() else {}
        if all(old.get(key) == m[key] for key in m if key != "figures"):
            m["figures"] = old["figures"]
        for name, (engine, options) in variants(a).items():
            with running(engine, a, options) as (url, model, _):
                m["figures"][name] = measure(url, model, a)
            print(f"{name}: {m['figures'][name]}", file=sys.stderr)
            kept.write_text(json.dumps(m, indent=1))
    write_part(a.output / "engine.md", "bench/gaps.py", table(json.loads(kept.read_text())))


if __name__ == "__main__":
    main()
