#!/usr/bin/env python3
"""Time and activation memory with fused and with unfused ops, in turn, into the section "Fusion" of docs/performance.md.

    bench/fusion.py models/SmolLM2-135M-Instruct.Q4_1.gguf models/gemma-3-270m-q4_k_m.gguf gpt2-q8_0.gguf
"""
import argparse
import json
import statistics
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TITLE = "## Fusion"


def bench(millrace, *args):
    return json.loads(subprocess.run([millrace, "bench", "--json", *map(str, args)], capture_output=True, text=True, check=True).stdout)


def measure(a, model):
    """{"on"|"off": {"prefill": tok/s, "decode": tok/s, "bytes": activations}}, medians of the rounds."""
    runs = {"on": [], "off": []}
    for _ in range(a.rounds):
        for fusion, reports in runs.items():
            reports.append(bench(a.millrace, "-m", model, "--prompt", a.prompt, "--gen", a.gen, "--repeat", 3, "--fusion", fusion))
    out = {}
    for fusion, reports in runs.items():
        speed = {t: statistics.median(r["tok_s"] for report in reports for r in report["results"] if r["test"] == t)
                 for t in ("prefill", "decode")}
        other = statistics.median(report["machine"]["other_load_share"] for report in reports)
        out[fusion] = {**speed, "bytes": reports[0]["model"]["activation_bytes"], "other": other}
    return out


def pair(on, off, form="{:,.0f}"):
    return f"{form.format(on)}; {form.format(off)} | {100 * (on / off - 1):+.0f} %"


def section(a, models, pipelines):
    lines = [TITLE, "",
             "Written by `bench/fusion.py`: medians of rounds in turn, fused; unfused (`--fusion off`), and what fusion changes. No bit of a "
             "result differs. Activations are those of a step of 512 rows. Other processes took "
             f"{100 * max(m[f]['other'] for m in models.values() for f in m):.0f} % of the CPUs meanwhile.", "",
             f"| model | prompt of {a.prompt}, tok/s | | answer, tok/s | | activations, MB | |", "|---|---|---|---|---|---|---|"]
    for name, m in models.items():
        on, off = m["on"], m["off"]
        lines.append(f"| {name} | {pair(on['prefill'], off['prefill'])} | {pair(on['decode'], off['decode'])} | "
                     f"{pair(on['bytes'] * 1e-6, off['bytes'] * 1e-6, '{:.1f}')} |")
    lines += ["", "Input, LayerNorm, GELU, Linear: LayerNorm and GELU as one kernel in front of the product; step by step.", "",
              "| product | rows x width | ms | | peak activations, MB | |", "|---|---|---|---|---|---|"]
    for p in pipelines:
        lines.append(f"| {p['kernel']} | {p['n_row']} x {p['n']} | {pair(p['fused_seconds'] * 1e3, p['unfused_seconds'] * 1e3, '{:.1f}')} | "
                     f"{pair(p['fused_bytes'] * 1e-6, p['unfused_bytes'] * 1e-6, '{:.1f}')} |")
    return "\n".join(lines) + "\n"


def best_pipelines(a):
    best = {}
    for _ in range(a.rounds):
        for p in bench(a.millrace, "--kernel", "layer_norm_gelu")["pipelines"]:
            kept = best.setdefault(p["kernel"], p)
            for key in ("fused_seconds", "unfused_seconds"):
                kept[key] = min(kept[key], p[key])
    return list(best.values())


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("models", nargs="+", type=Path)
    p.add_argument("--millrace", default=str(ROOT / "build/millrace"))
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--prompt", type=int, default=256)
    p.add_argument("--gen", type=int, default=16)
    a = p.parse_args()
    page = ROOT / "docs/performance.md"
    text = section(a, {m.name: measure(a, m) for m in a.models}, best_pipelines(a))
    page.write_text(page.read_text().partition(TITLE)[0].rstrip("\n") + "\n\n" + text)
    print(text)


if __name__ == "__main__":
    main()
