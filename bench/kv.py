#!/usr/bin/env python3
"""Compare the ways to give sequences key/value memory, in turn under one load, and write their part of docs/engine.md and
docs/engine-kv.svg.

    bench/kv.py models/SmolLM2-135M-Instruct.Q4_1.gguf [--rounds 3] [--kv-tokens 4096]

Every policy gets the same requests and the same memory, so small that it decides how many run at a time. Figures are the medians of the
rounds; what counts memory is the same in each. build/kv.json keeps them: without a model the page is written again from it."""
import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

from page import ROOT, cpu_name, draw, write_part

POLICIES = {"reserve": "the longest sequence's memory from the beginning", "grow": "doubled and copied when full",
            "paged": "blocks of 16 tokens"}
TIMEOUT_S = 900


def load(model, policy, a):
    command = [a.millrace, "bench", "--engine", "-m", str(model), "-c", str(a.ctx), "--requests", str(a.requests),
               "--max-running", str(a.max_running), "--kv-tokens", str(a.kv_tokens), "--kv", policy, "-t", str(a.threads)]
    r = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=TIMEOUT_S)
    return json.loads(r.stdout)


def measure(model, a):
    runs = {p: [] for p in POLICIES}
    for number in range(a.rounds):
        for policy in POLICIES:
            print(f"round {number + 1} of {a.rounds}: {policy}", file=sys.stderr)
            runs[policy].append(load(model, policy, a))

    def middle(policy, *path):
        values = runs[policy]
        for name in path:
            values = [v[name] for v in values]
        return statistics.median(values)

    figures = {p: {"tok_s": middle(p, "answer_tokens_per_second"), "waste": 1 - middle(p, "engine", "kv_live"),
                   "running": middle(p, "engine", "running"), "running_max": middle(p, "engine", "running_max"),
                   "copied_mb": middle(p, "engine", "kv_bytes_copied") / 1e6, "preemptions": middle(p, "engine", "preemptions"),
                   "e2e_s": middle(p, "e2e_ms", "p50") / 1e3} for p in POLICIES}
    return {"model": model.name, "rounds": a.rounds, "cpu": cpu_name(), "figures": figures,
            "load": f"-c {a.ctx} --requests {a.requests} --max-running {a.max_running} --kv-tokens {a.kv_tokens} -t {a.threads}"}


def table(m):
    lines = [f"{m['model']}, `bench --engine {m['load']}`, {m['rounds']} round{'s' if m['rounds'] > 1 else ''} in turn, {m['cpu']}.", "",
             "| policy | memory without a live token | sequences at a time, mean (most) | answer tokens a second | median answer complete | put aside | copied |",
             "|---|---|---|---|---|---|---|"]
    for p, f in m["figures"].items():
        lines.append(f"| `{p}`: {POLICIES[p]} | {100 * f['waste']:.1f} % | {f['running']:.1f} ({f['running_max']:.0f}) | "
                     f"{f['tok_s']:.0f} | {f['e2e_s']:.1f} s | {f['preemptions']:.0f} | {f['copied_mb']:.0f} MB |")
    return "\n".join(lines + ["", "![waste, sequences and throughput of the policies](engine-kv.svg)"])


PLOT = """
panels = [("memory without a live token, %", lambda f: 100 * f["waste"], "{:.1f}"),
          ("sequences at a time, mean", lambda f: f["running"], "{:.1f}"),
          ("answer tokens a second", lambda f: f["tok_s"], "{:,.0f}")]
fig, axes = plt.subplots(1, len(panels), figsize=(9, 1.9), layout="constrained", sharey=True)
for ax, (title, value, form) in zip(axes, panels):
    values = [value(f) for f in d["figures"].values()]
    bars = ax.barh(range(len(values)), values, 0.6, color=["C1", "C2", "C0"])
    ax.bar_label(bars, [form.format(v) for v in values], padding=2, fontsize=7)
    ax.set_yticks(range(len(values)), list(d["figures"]), fontsize=8)
    ax.margins(x=0.2)
    ax.set_title(title, fontsize=9)
axes[0].invert_yaxis()
"""


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model", nargs="?", type=Path, help="none: write again what build/kv.json holds")
    p.add_argument("--millrace", default=str(ROOT / "build/millrace"))
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    p.add_argument("--ctx", type=int, default=2048)
    p.add_argument("--requests", type=int, default=48)
    p.add_argument("--max-running", type=int, default=32)
    p.add_argument("--kv-tokens", type=int, default=4096)
    p.add_argument("--output", type=Path, default=ROOT / "docs")
    a = p.parse_args()
    kept = ROOT / "build/kv.json"
    if a.model is not None:
        kept.write_text(json.dumps(measure(a.model, a)))
    m = json.loads(kept.read_text())
    write_part(a.output / "engine.md", "bench/kv.py", table(m))
    draw(PLOT, m, a.output / "engine-kv.svg")


if __name__ == "__main__":
    main()
