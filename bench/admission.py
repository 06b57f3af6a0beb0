#!/usr/bin/env python3
"""Sweep the arrival rate over the engine with a real model, and write the figures into docs/admission.md and docs/admission.svg.

    bench/admission.py models/SmolLM2-135M-Instruct.Q4_1.gguf [--quick] [--seconds 20] [--max-running 16]

Requests have 16 tokens of their own behind a cached system prompt of 128, and answers of 24 to 48 tokens; they arrive as a Poisson process at
0.2 to 3 times the capacity, which is measured first, with all of them at once. For each rate: admission at targets of 800, 500 and 300 ms, for the
first token and for the whole answer; without admission; without the rule of low and high load. Then batches of a fixed size, all at once. The
variants of one rate run in turn, half an hour in all. build/admission.json keeps what was measured; --draw draws it again. --quick takes about two minutes and
prints the tables only."""
import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

from page import ROOT, draw, write_part

LOADS = [0.2, 0.5, 0.8, 1, 1.5, 2, 3]
TARGETS = [800, 500, 300]
SIZES = [1, 4, 8, 16]
LOAD = ["--shared", "128", "--prompt", "16", "--gen", "24", "--gen-most", "48", "--warm-up", "16", "-c", "512"]
NEVER = ["--low-load", "1000", "--high-load", "1000"]


def bench(a, *more):
    command = [a.millrace, "bench", "--engine", "-m", a.model, *LOAD, *(["--threads", str(a.threads)] if a.threads else []), *map(str, more)]
    r = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if r.returncode != 0:
        sys.exit(f"{' '.join(command)}\n{r.stderr}")
    return json.loads(r.stdout)


def variants(a):
    """name -> arguments; the run without admission serves all targets and both metrics."""
    found = {"none": ["--latency-target", 500, "--admission", "off"]}
    for metric in ("ttft", "e2e"):
        for target in a.targets:
            found[f"{metric} {target}"] = ["--latency-target", target, "--latency-metric", metric]
        found[f"{metric} 500, no load rule"] = ["--latency-target", 500, "--latency-metric", metric, *NEVER]
    return found


def point(a, name, load, arguments, rate):
    n = max(8, round(rate * a.seconds))
    r = bench(a, "--requests", n, "--rate", f"{rate:.4f}", "--max-running", a.max_running, "--seed", a.seed, *arguments)
    keep = {k: r[k] for k in ("seconds", "finished", "requests_per_second", "goodput", "slo_attainment", "ttft_ms", "tpot_ms", "itl_ms", "e2e_ms")}
    keep.update(load=load, requests=n, admission=r["admission"], engine=r["engine"])
    print(f"  {load} times {a.capacity:.1f}/s, {name}: p99 ttft {r['ttft_ms']['p99']:.0f} ms, e2e {r['e2e_ms']['p99']:.0f} ms, "
          f"refused {r['admission']['refused']} of {n}, goodput {r['goodput']:.2f}/s", file=sys.stderr)
    return keep


def measure(a):
    a.capacity = bench(a, "--requests", 6 * a.max_running, "--max-running", a.max_running)["requests_per_second"]
    print(f"capacity: {a.capacity:.2f} requests/s", file=sys.stderr)
    chosen = variants(a)
    sweeps = {name: [] for name in chosen}
    for load in a.loads:
        for name, arguments in chosen.items():
            sweeps[name].append(point(a, name, load, arguments, load * a.capacity))
    sizes = []
    for size in a.sizes:
        r = bench(a, "--requests", max(8, 4 * size), "--max-running", size, "--batching", "static", "--latency-target", 500, "--admission", "off")
        sizes.append({"size": size, "tokens_per_second": r["answer_tokens_per_second"], "itl_p99": r["itl_ms"]["p99"], "tpot_p99": r["tpot_ms"]["p99"]})
        print(f"  batch of {size}: {r['answer_tokens_per_second']:.0f} tokens/s, p99 {r['itl_ms']['p99']:.1f} ms", file=sys.stderr)
    return {"model": Path(a.model).name, "capacity": a.capacity, "max_running": a.max_running, "seconds": a.seconds, "sweeps": sweeps, "sizes": sizes,
            "when": time.strftime("%Y-%m-%d")}


def metric_of(name):
    return "e2e" if name.startswith("e2e") else "ttft"


def p99(p, metric, name):
    """Of those that the target is meant for, None where there were none; without admission of all."""
    a = p["admission"]
    if name == "none":
        return p[f"{metric}_ms"]["p99"]
    return a["bound_ms"]["p99"] if a["metric"] == metric and a["bound"] > 0 else None


def number(x):
    return "-" if x is None else f"{x:,.0f}"


def row(name, metric, points, field):
    return f"| {name} | " + " | ".join(field(p, metric) for p in points) + " |"


def page(d):
    loads = [p["load"] for p in next(iter(d["sweeps"].values()))]
    head = ["| arrivals, times the capacity | " + " | ".join(str(x) for x in loads) + " |", "|---" * (len(loads) + 1) + "|"]
    lines = [f"{d['model']}, capacity {d['capacity']:.1f} requests/s ({d['max_running']} at a time), {d['seconds']} s of arrivals for each figure.", "",
             "![P99 and goodput over the arrival rate](admission.svg)", ""]
    for metric, title in (("ttft", "First token"), ("e2e", "Whole answer")):
        names = ["none"] + [n for n in d["sweeps"] if n.startswith(metric)]
        label = {n: "without admission" if n == "none" else f"target {n.removeprefix(metric).strip()}" for n in names}
        lines += [f"**{title}: P99 in ms**, of requests that were let in and that the target binds", "", *head]
        lines += [row(label[n], metric, d["sweeps"][n], lambda p, m, n=n: number(p99(p, m, n))) for n in names]
        lines += ["", f"**{title}: requests within the target, a second / refused of a hundred**", "", *head]
        label["none"] = "without admission, target 500"
        lines += [row(label[n], metric, d["sweeps"][n], lambda p, m: f"{p['goodput']:.1f} / {100 * p['admission']['refused'] / p['requests']:.0f}")
                  for n in names if n != "none" or metric == "ttft"]
        lines.append("")
    lines += ["**Batches of a fixed size**", "", "| answers | tokens a second | P99 of the gaps, ms |", "|---|---|---|"]
    lines += [f"| {s['size']} | {s['tokens_per_second']:,.0f} | {s['itl_p99']:.1f} |" for s in d["sizes"]]
    return "\n".join(lines)


PLOT = """
fig, axes = plt.subplots(4, 2, figsize=(9, 12), layout="constrained")
for k, metric in enumerate(("ttft", "e2e")):
    title = {"ttft": "first token", "e2e": "whole answer"}[metric]
    for i, (name, points) in enumerate(d["sweeps"].items()):
        if name != "none" and not name.startswith(metric):
            continue
        x = [p["load"] for p in points]
        label = "no admission" if name == "none" else name[len(metric) + 1:]
        style = {"label": label, "linestyle": "--" if "rule" in name or name == "none" else "-", "marker": ".", "color": f"C{i}"}
        line = axes[0, k].plot(x, [p["p99"][metric] for p in points], **style)
        if name == "none" and metric == "e2e":
            continue
        axes[1, k].plot(x, [p["goodput"] for p in points], **style)
        axes[2, k].plot(x, [100 * p["refused"] for p in points], **style)
    for target in d["targets"]:
        axes[0, k].axhline(target, color="0.8", linewidth=0.7)
    axes[0, k].set_yscale("log")
    axes[0, k].set_title(f"P99, {title}, ms", fontsize=9)
    axes[1, k].set_title(f"{title}: within the target, requests/s", fontsize=9)
    axes[2, k].set_title(f"{title}: refused, %", fontsize=9)
    axes[0, k].legend(fontsize=7)
    for row in range(3):
        axes[row, k].set_xlabel("arrivals, times the capacity", fontsize=8)
sizes = d["sizes"]
axes[3, 0].plot([s["itl_p99"] for s in sizes], [s["tokens_per_second"] for s in sizes], marker="o")
for s in sizes:
    axes[3, 0].annotate(str(s["size"]), (s["itl_p99"], s["tokens_per_second"]), fontsize=8, xytext=(4, -8), textcoords="offset points")
axes[3, 0].set_title("batches of a fixed size: tokens/s over P99 of the gaps, ms", fontsize=9)
axes[3, 1].axis("off")
"""


def write(d, docs):
    write_part(docs / "admission.md", "bench/admission.py", page(d))
    data = {"sizes": d["sizes"], "targets": TARGETS, "sweeps": {}}
    for name, points in d["sweeps"].items():
        data["sweeps"][name] = [{"load": p["load"], "goodput": p["goodput"], "refused": p["admission"]["refused"] / p["requests"],
                                 "p99": {m: p99(p, m, name) for m in ("ttft", "e2e")}} for p in points]
    draw(PLOT, data, docs / "admission.svg")
    print("wrote admission.md and admission.svg")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model", nargs="?", help="none with --draw")
    p.add_argument("--millrace", default=str(ROOT / "build/millrace"))
    p.add_argument("--threads", type=int, help="default: as many as CPUs may be used")
    p.add_argument("--seconds", type=float, default=20, help="of arrivals for each figure")
    p.add_argument("--max-running", type=int, default=16)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--quick", action="store_true")
    p.add_argument("--draw", action="store_true")
    p.add_argument("--output", type=Path, default=ROOT / "docs")
    a = p.parse_args()
    kept = ROOT / "build" / ("admission-quick.json" if a.quick else "admission.json")
    if a.draw:
        return write(json.loads(kept.read_text()), a.output)
    if a.model is None:
        p.error("which model?")
    a.loads, a.targets, a.sizes = (LOADS, TARGETS, SIZES) if not a.quick else ([0.5, 1, 2], [500], [1, 8])
    a.seconds = min(a.seconds, 4) if a.quick else a.seconds
    d = measure(a)
    kept.write_text(json.dumps(d, indent=1))
    if a.quick:
        print(page(d))
    else:
        write(d, a.output)


if __name__ == "__main__":
    main()
