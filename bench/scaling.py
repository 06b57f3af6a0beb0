#!/usr/bin/env python3
"""What a second core brings, what a long context costs, and which ops a step spends its time on, into their part of docs/benchmarking.md.

    bench/scaling.py models/SmolLM2-135M-Instruct.Q4_1.gguf [MODEL...] [--rounds 3]

One thread and all of them run the same prompt in turn. A long context costs at least the time in which its keys and values are read: `cost` is
what the step takes longer than one of an empty context, over that. Ops beside products and attention are listed above 3 % of a step.
build/scaling.json keeps the figures: without a model the page is written again from it."""
import argparse
import json
import os
import statistics
import subprocess
from pathlib import Path

from page import ROOT, cpu_name, write_part

LARGE = 0.03  # of a step


def bench(a, model, *options):
    command = [a.millrace, "bench", "-m", str(model), "--json", "--repeat", "3", *map(str, options)]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)


def rate(report, depth=None):
    return next(r["tok_s"] for r in report["results"] if depth is None or r["depth"] == depth)


def context_cost(report, depth):
    """Extra time of a step at the depth over the time that its extra bytes take at the read rate."""
    empty, deep = (next(r for r in report["results"] if r["depth"] == d) for d in (0, depth))
    extra_bytes = deep["gb_s"] / deep["tok_s"] - empty["gb_s"] / empty["tok_s"]
    return (1 / deep["tok_s"] - 1 / empty["tok_s"]) / (extra_bytes / report["limits"]["read_gb_s"])


def large_ops(result):
    """{op: share of the step}, beside products and attention, the largest first."""
    share = {}
    for op in result["profile"]["ops"]:
        if op["op"] not in ("matmul", "matmul_experts", "attention"):
            share[op["op"]] = share.get(op["op"], 0) + op["seconds"] / result["profile"]["seconds"]
    return {op: s for op, s in sorted(share.items(), key=lambda x: -x[1]) if s > LARGE}


def measure(a, model):
    one, all_, costs, other = [], [], {d: [] for d in a.depth}, []
    for _ in range(a.rounds):
        one.append(rate(bench(a, model, "--prompt", a.prompt, "--gen", 0, "--threads", 1)))
        all_.append(rate(bench(a, model, "--prompt", a.prompt, "--gen", 0, "--threads", a.threads)))
        report = bench(a, model, "--prompt", 0, "--gen", a.gen, "--threads", a.threads, "--depth", ",".join(map(str, [0, *a.depth])))
        other.append(report["machine"]["other_load_share"])
        for depth in a.depth:
            costs[depth].append(context_cost(report, depth))
    profile = bench(a, model, "--prompt", a.prompt, "--gen", a.gen, "--threads", a.threads, "--profile")
    return {"cpu": cpu_name(), "threads": a.threads, "rounds": a.rounds, "prompt": a.prompt, "other": statistics.median(other),
            "one": statistics.median(one), "all": statistics.median(all_), "cost": {str(d): statistics.median(c) for d, c in costs.items()},
            "ops": {r["test"]: large_ops(r) for r in profile["results"]}}


def row(name, m):
    costs = ", ".join(f"{int(d):,}: {c:.2f}" for d, c in m["cost"].items())
    ops = "; ".join(f"{test} {', '.join(f'{op} {100 * s:.0f} %' for op, s in ops.items()) or 'none'}" for test, ops in m["ops"].items())
    return (f"| {name} | {m['prompt']}: {m['one']:,.0f}; {m['all']:,.0f} | {m['all'] / m['one']:.2f} of {m['threads']} | {costs} | {ops} | "
            f"{m['rounds']} rounds, {m['cpu']}, others {100 * m['other']:.0f} % |")


def table(models):
    return "\n".join(["| model | prompt, tok/s of one thread; of all | times | cost of a context | ops above 3 % of a step | measured |", "|---" * 6 + "|",
                      *(row(name, m) for name, m in models.items())])


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("models", nargs="*", type=Path)
    p.add_argument("--millrace", default=str(ROOT / "build/millrace"))
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    p.add_argument("--prompt", type=int, default=512)
    p.add_argument("--gen", type=int, default=32)
    p.add_argument("--depth", type=lambda s: list(map(int, s.split(","))), default=[4096, 8128])
    p.add_argument("--output", type=Path, default=ROOT / "docs")
    a = p.parse_args()
    kept = ROOT / "build/scaling.json"
    models = json.loads(kept.read_text()) if kept.exists() else {}
    for model in a.models:
        models[model.name] = measure(a, model)
        kept.write_text(json.dumps(models, indent=1))
    write_part(a.output / "benchmarking.md", "bench/scaling.py", table(models))


if __name__ == "__main__":
    main()
