#!/usr/bin/env python3
"""Compare Millrace with other engines on this machine, in turn, and write docs/performance.md and docs/performance.svg.

    bench/peers.py models/SmolLM2-135M-Instruct.Q4_1.gguf [MODEL...] [--rounds 3] [--batch 1,8]

The peers come from PyPI (bench/requirements.txt) into build/peers-venv. In each round every engine runs once, each in a process
of its own, so that what else happens on the machine meets all of them; the figure is the median of the rounds. build/peers.json keeps what was
measured, after every round: models of earlier runs stay on the page until they are measured again. Shares are
of the limits that `millrace bench` measured in the same round, with the operations and bytes that it counted: a peer
that does the same work in other ways is measured by the same work."""
import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

from page import ROOT, cpu_name, draw, make_venv

ENGINES = ["millrace", "llama.cpp", "openvino"]
TIMEOUT_S = 600


def prepare_venv():
    return make_venv("peers-venv", "requirements.txt")


def run_in_venv(script, *arguments, timeout):
    """What the script printed with hand_back under the peers' Python; None: nothing."""
    r = subprocess.run([prepare_venv(), script, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                       timeout=timeout)
    return json.loads(r.stdout.splitlines()[-1]) if r.stdout.strip() else None


def hand_back(make):
    """Print make() as JSON, alone on standard output, and end: a server writes there as it pleases, and its threads need not end in order."""
    out = os.dup(1)
    os.dup2(2, 1)
    os.write(out, (json.dumps(make()) + "\n").encode())
    os._exit(0)


def run_engine(python, engine, model, a):
    command = [python, str(ROOT / "bench/engines.py"), engine, "--model", str(model), "--millrace", a.millrace,
               "--threads", str(a.threads), "--prompt", str(a.prompt), "--gen", str(a.gen), "--batch", a.batch,
               "--depth", str(a.depth)]
    try:
        r = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        print(f"  {engine}: not done after {TIMEOUT_S} s", file=sys.stderr)
        return None
    if r.returncode != 0:
        last = r.stderr.strip().splitlines()[-1:] or ["no message"]
        print(f"  {engine}: failed: {last[0]}", file=sys.stderr)
        return None
    return json.loads(r.stdout.splitlines()[-1])


def key(result):
    return result["test"], result["batch"], result["depth"]


def share(speed, reference):
    """The larger of the shares of the peak and the read rate that this speed means for the work of the reference."""
    scale = speed / reference["tok_s"]
    return max(reference["mfu"], reference["mbu"]) * scale, "MFU" if reference["mfu"] > reference["mbu"] else "MBU"


def measure(python, model, a, save):
    """Run the rounds; after each, save({"limits": [...], "rounds", "cases": {name: {engine: {"tok_s", "share", "of"}}}})."""
    cases, limits = {}, []
    for number in range(a.rounds):
        reference = {}
        for engine in a.engines.split(","):
            print(f"{model.name}: round {number + 1} of {a.rounds}: {engine}", file=sys.stderr)
            report = run_engine(python, engine, model, a)
            if report is None:
                continue
            if "limits" in report:
                limits.append({**report["limits"], **report["machine"]})
                reference = {key(r): r for r in report["results"]}
            for r in report["results"]:
                cell = cases.setdefault(case_name(key(r), a), {}).setdefault(engine, {"tok_s": [], "share": []})
                cell["tok_s"].append(r["tok_s"])
                if key(r) in reference:
                    part, cell["of"] = share(r["tok_s"], reference[key(r)])
                    cell["share"].append(part)
        if limits:
            save({"limits": limits, "rounds": number + 1, "cases": cases})


def case_name(case, a):
    test, batch, depth = case
    if test == "prefill":
        return f"prompt of {a.prompt}"
    at = f" at depth {depth}" if depth else ""
    return f"answer{at}, {batch} sequence{'s' if batch > 1 else ''}"


def cell_text(cell):
    if cell is None:
        return "-"
    part = f" = {100 * statistics.median(cell['share']):.0f} % {cell['of']}" if cell["share"] else ""
    return f"{statistics.median(cell['tok_s']):,.0f}{part}"


def limits_text(limits):
    def middle(name):
        values = [x[name] for x in limits if x.get(name)]
        return statistics.median(values) if values else None

    peaks = ", ".join(f"{n} {middle(n + '_gops'):,.0f} GOP/s" for n in ("int8", "bf16", "f32") if middle(n + "_gops"))
    return (f"{peaks}, read rate {middle('read_gb_s'):.1f} GB/s ({limits[0]['isa']}, {limits[0]['threads']} threads, "
            f"{middle('clock_ghz'):.2f} GHz; other processes took {100 * (middle('other_load_share') or 0):.0f} % of the CPUs)")


def page(models, engines):
    lines = ["# Performance", "",
             "Written by `bench/peers.py`; [benchmarking.md](benchmarking.md) says how the figures are measured. Tokens a second of all",
             "sequences together, medians of rounds in which the engines ran in turn, and the share of the limit of the machine that binds",
             "the case: MFU, of the peak of the arithmetic; MBU, of the read rate of memory. llama.cpp is the PyPI package `xllamacpp`, OpenVINO",
             "`openvino-genai`, as pinned in `bench/requirements.txt`; a dash: the engine does not load the model or has no such case.", "",
             f"Machine: {cpu_name()}.", "", "![tokens a second](performance.svg)", ""]
    for name, m in models.items():
        lines += [f"## {name}", "", f"Limits in the same {m['rounds']} rounds: {limits_text(m['limits'])}.", "",
                  "| case | " + " | ".join(engines) + " |", "|---" * (len(engines) + 1) + "|"]
        for case, cells in m["cases"].items():
            lines.append(f"| {case} | " + " | ".join(cell_text(cells.get(e)) for e in engines) + " |")
        lines.append("")
    return "\n".join(lines)


PLOT = """
fig, axes = plt.subplots(len(d["models"]), 1, figsize=(8, 2.4 * len(d["models"]) + 0.6), squeeze=False, layout="constrained")
for ax, (name, cases) in zip(axes[:, 0], d["models"].items()):
    for i, engine in enumerate(d["engines"]):
        at = [k + (i - (len(d["engines"]) - 1) / 2) * 0.26 for k in range(len(cases))]
        values = [c["tok_s"].get(engine, 0) for c in cases]
        bars = ax.barh(at, values, 0.24, label=engine)
        ax.bar_label(bars, [f"{v:,.0f}" if v else "" for v in values], padding=2, fontsize=7)
    ax.set_yticks(range(len(cases)), [c["name"] for c in cases], fontsize=8)
    ax.invert_yaxis()
    ax.margins(x=0.12)
    ax.set_title(name, fontsize=9)
axes[0, 0].legend(fontsize=8)
axes[-1, 0].set_xlabel("tokens a second")
"""


def write_plot(models, engines, path):
    data = {"engines": engines, "models": {}}
    for name, m in models.items():
        data["models"][name] = [{"name": case, "tok_s": {e: statistics.median(c["tok_s"]) for e, c in cells.items()}}
                                for case, cells in m["cases"].items()]
    draw(PLOT, data, path)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("models", nargs="*", type=Path, help="none: draw again what build/peers.json holds")
    p.add_argument("--engines", default=",".join(ENGINES), help="millrace must be the first: its counts give the shares")
    p.add_argument("--millrace", default=str(ROOT / "build/millrace"))
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    p.add_argument("--prompt", type=int, default=512)
    p.add_argument("--gen", type=int, default=64)
    p.add_argument("--batch", default="1,8")
    p.add_argument("--depth", type=int, default=0)
    p.add_argument("--output", type=Path, default=ROOT / "docs")
    a = p.parse_args()
    python = prepare_venv()
    kept = ROOT / "build/peers.json"
    models = json.loads(kept.read_text()) if kept.exists() else {}

    def write():
        path = a.output / "performance.md"
        _, title, fusion = path.read_text().partition("\n## Fusion\n") if path.exists() else ("", "", "")  # bench/fusion.py wrote it
        path.write_text(page(models, a.engines.split(",")) + title + fusion)
        write_plot(models, a.engines.split(","), a.output / "performance.svg")

    def save(name, measured):
        models[name] = measured
        kept.write_text(json.dumps(models))
        write()

    for model in a.models:
        measure(python, model, a, lambda measured, name=model.name: save(name, measured))
    write()
    print(f"wrote {a.output / 'performance.md'} and performance.svg")


if __name__ == "__main__":
    main()
