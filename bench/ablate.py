#!/usr/bin/env python3
"""What each technique brings: `millrace bench --ablate` in several rounds, into its part of docs/benchmarking.md and docs/ablation.svg.

    bench/ablate.py models/SmolLM2-135M-Instruct.Q4_1.gguf [--rounds 3]

Figures are medians of the rounds. build/ablate.json keeps them: without a model the page is written again from it."""
import argparse
import json
import statistics
import subprocess
from pathlib import Path

from page import ROOT, cpu_name, draw, write_part

TIMEOUT_S = 1800


def title(result):
    if result["test"] == "prefill":
        return f"prompt of {result['n_tokens']}"
    return f"answer, {result['batch']} sequence{'s' if result['batch'] > 1 else ''}"


def measure(a):
    command = [a.millrace, "bench", "-m", str(a.model), "--ablate", "--prompt", str(a.prompt), "--gen", str(a.gen), "--batch", a.batch,
               "--repeat", "2", "--json"]
    rounds = [json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=TIMEOUT_S).stdout)
              for _ in range(a.rounds)]
    stages = []
    for at, stage in enumerate(rounds[0]["ablation"]):
        speed = {title(result): statistics.median(r["ablation"][at]["results"][i]["tok_s"] for r in rounds)
                 for i, result in enumerate(stage["results"])}
        stages.append({"stage": stage["stage"], "isa": stage["isa"], "threads": stage["threads"], "tok_s": speed})
    other = statistics.median(r["machine"]["other_load_share"] for r in rounds)
    return {"model": a.model.name, "rounds": a.rounds, "cpu": cpu_name(), "other": other, "stages": stages}


def table(m):
    cases = list(m["stages"][0]["tok_s"])
    lines = [f"{m['model']}, tokens a second and how many times those of the line before; {m['rounds']} rounds, {m['cpu']}; other "
             f"processes took {100 * m['other']:.0f} % of the CPUs.", "", "| stage | threads | " + " | ".join(cases) + " |",
             "|---" * (2 + len(cases)) + "|"]
    before = m["stages"][0]["tok_s"]
    for stage in m["stages"]:
        cells = [f"{stage['tok_s'][c]:,.1f} ({stage['tok_s'][c] / before[c]:.2f})" for c in cases]
        lines.append(f"| {stage['stage']} ({stage['isa']}) | {stage['threads']} | " + " | ".join(cells) + " |")
        before = stage["tok_s"]
    return "\n".join(lines + ["", "![tokens a second as one technique joins the others](ablation.svg)"])


PLOT = """
cases = list(d["stages"][0]["tok_s"])
fig, axes = plt.subplots(1, len(cases), figsize=(9, 2.2), layout="constrained", sharey=True, squeeze=False)
for ax, case in zip(axes[0], cases):
    values = [s["tok_s"][case] for s in d["stages"]]
    bars = ax.barh(range(len(values)), values, 0.6, color=[f"C{i}" for i in range(len(values))])
    ax.bar_label(bars, [f"{v:,.1f}" for v in values], padding=2, fontsize=7)
    ax.set_yticks(range(len(values)), [s["stage"] for s in d["stages"]], fontsize=8)
    ax.set_xscale("log")
    ax.margins(x=0.25)
    ax.set_title(case + ", tok/s", fontsize=9)
axes[0, 0].invert_yaxis()
"""


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model", nargs="?", type=Path, help="none: write again what build/ablate.json holds")
    p.add_argument("--millrace", default=str(ROOT / "build/millrace"))
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--prompt", type=int, default=128)
    p.add_argument("--gen", type=int, default=8)
    p.add_argument("--batch", default="1,8")
    p.add_argument("--output", type=Path, default=ROOT / "docs")
    a = p.parse_args()
    kept = ROOT / "build/ablate.json"
    if a.model is not None:
        kept.write_text(json.dumps(measure(a)))
    m = json.loads(kept.read_text())
    write_part(a.output / "benchmarking.md", "bench/ablate.py", table(m))
    draw(PLOT, m, a.output / "ablation.svg")


if __name__ == "__main__":
    main()
