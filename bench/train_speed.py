#!/usr/bin/env python3
"""Speed of training, into its part of docs/training.md.

    bench/train_speed.py models/SmolLM2-135M-Instruct.Q4_1.gguf --text text.txt

Each way of training runs in turn, round by round, for a few steps; the first step, which meets memory for the first time, does not
count. MFU is a share of the f32 peak that the same run measures."""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from page import ROOT, cpu_name, write_part

WAYS = {"all weights": [], "adapter, `--lora 16`": ["--lora", 16], "`--heads medusa`": ["--heads", "medusa"],
        "`--heads eagle`": ["--heads", "eagle"]}


def points(a, more, folder):
    """(tokens a second, MFU) of each step but the first."""
    command = [a.millrace, "distill", "-m", a.model, "-f", a.text, "-o", Path(folder, "out.gguf"), "--steps", a.steps + 1, "--tokens",
               a.tokens, "--batch", a.batch, "--accumulate", 1, "--held-out", 0, "--report-every", 1, "--json", *more]
    print("+", *map(str, command), file=sys.stderr, flush=True)
    r = subprocess.run([*map(str, command)], stdout=subprocess.PIPE, text=True, check=True)
    return [(p["tokens_per_s"], p["mfu"]) for p in json.loads(r.stdout)["curve"][1:]]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model", type=Path)
    p.add_argument("--text", type=Path, required=True)
    p.add_argument("--millrace", default=str(ROOT / "build/release/millrace"))
    p.add_argument("--steps", type=int, default=3)
    p.add_argument("--rounds", type=int, default=2)
    p.add_argument("--tokens", type=int, default=512)
    p.add_argument("--batch", type=int, default=2)
    p.add_argument("--output", type=Path, default=ROOT / "docs")
    a = p.parse_args()
    found = {name: [] for name in WAYS}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(a.rounds):
            for name, more in WAYS.items():
                found[name] += points(a, more, folder)
    lines = [f"{a.model.name}, {a.batch} windows of {a.tokens} tokens at a time, without a teacher, on {cpu_name()}, {os.cpu_count()} CPUs; "
             f"median of {a.steps * a.rounds} steps in {a.rounds} rounds (lowest to highest):", "", "| trained | tokens/s | MFU |",
             "|---|--:|--:|"]
    for name, steps in found.items():
        speed, mfu = ([s[i] for s in steps] for i in range(2))
        lines.append(f"| {name} | {statistics.median(speed):.0f} ({min(speed):.0f} to {max(speed):.0f}) | {100 * statistics.median(mfu):.1f} % "
                     f"({100 * min(mfu):.1f} to {100 * max(mfu):.1f}) |")
    write_part(a.output / "training.md", "bench/train_speed.py", "\n".join(lines))


if __name__ == "__main__":
    main()
