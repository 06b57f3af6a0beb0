#!/usr/bin/env python3
"""What optimisation at link time (LTO) and by a profile (PGO) bring over the release build, in turn, into docs/benchmarking.md.

    bench/optimised_builds.py models/SmolLM2-135M-Instruct.Q4_1.gguf [--rounds 5]

Five builds of the program in build/optimised/ (some minutes each, made once): one of them is instrumented, and runs what is measured to
make the profile. build/optimised/result.json keeps the figures: without a model the page is written again from it."""
import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

from page import ROOT, cpu_name, write_part

HOME = ROOT / "build/optimised"
PROFILE = HOME / "profile"
GENERATE = f"-fprofile-generate={PROFILE} -fprofile-update=atomic"
USE = f"-fprofile-use={PROFILE} -fprofile-partial-training -w"  # with a profile gcc warns of what cannot happen
LTO = ["-DCMAKE_INTERPROCEDURAL_OPTIMIZATION=ON"]
WORTH = 0.02  # what a harder build must bring to be the default
BUILDS = {"release": ([], ""), "LTO": (LTO, ""), "PGO": ([], USE), "LTO and PGO": (LTO, USE)}  # options of CMake, flags


def build(name, options, flags, log):
    """The program. A profile names objects by their path below the folder, so that what one build has written another one finds."""
    folder = HOME / name.replace(" ", "-")
    program = folder / "millrace"
    if program.exists():
        return program
    print(f"building {name}", file=sys.stderr)
    flags += f" -fprofile-prefix-path={folder}" if flags else ""
    with log.open("a") as out:
        for command in (["cmake", "-S", ROOT, "-B", folder, "-G", "Ninja", "-DCMAKE_C_COMPILER=gcc", "-DMILLRACE_TESTS=OFF", f"-DCMAKE_C_FLAGS={flags}", *options],
                        ["cmake", "--build", folder, "--target", "millrace"]):
            if subprocess.run(list(map(str, command)), stdout=out, stderr=out).returncode != 0:
                sys.exit(f"the build {name} failed: {log}")
    return program


def bench(program, a, repeat):
    command = [program, "bench", "-m", a.model, "--prompt", "512", "--gen", str(a.gen), "--batch", "1,8", "--repeat", str(repeat), "-t", str(a.threads), "--json"]
    return json.loads(subprocess.run(list(map(str, command)), check=True, stdout=subprocess.PIPE, text=True).stdout)


def programs(a):
    HOME.mkdir(parents=True, exist_ok=True)
    log = HOME / "build.log"
    if not any(PROFILE.rglob("*.gcda")):
        instrumented = build("instrumented", [], GENERATE, log)
        print("making the profile", file=sys.stderr)
        bench(instrumented, a, 1)
    return {name: build(name, options, flags, log) for name, (options, flags) in BUILDS.items()}


def title(r):
    return f"prompt of {r['n_tokens']}" if r["test"] == "prefill" else f"answer, {r['batch']} sequence{'s' if r['batch'] > 1 else ''}"


def measure(a):
    found, runs, others = programs(a), {}, []
    for number in range(a.rounds):
        for name, program in found.items():
            print(f"round {number + 1} of {a.rounds}: {name}", file=sys.stderr)
            report = bench(program, a, 2)
            others.append(report["machine"]["other_load_share"])
            for r in report["results"]:
                runs.setdefault(title(r), {}).setdefault(name, []).append(r["tok_s"])
    return {"model": a.model.name, "cpu": cpu_name(), "rounds": a.rounds, "other": statistics.median(others), "runs": runs,
            "bytes": {name: os.stat(program).st_size for name, program in found.items()}}


def gain(runs, name):
    """The median of the ratios within each round."""
    return statistics.median(x / y for x, y in zip(runs[name], runs["release"])) - 1


def text(m):
    cases = list(m["runs"])
    lines = [f"{m['model']}, tokens a second, medians of {m['rounds']} rounds in turn, and the median of what each round gained; {m['cpu']}; other processes took "
             f"{100 * m['other']:.0f} % of the CPUs.", "", "| build | " + " | ".join(cases) + " |", "|---" * (len(cases) + 1) + "|"]
    for name in BUILDS:
        cells = [f"{statistics.median(m['runs'][c][name]):,.0f} ({100 * gain(m['runs'][c], name):+.1f} %)" for c in cases]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    mean = {name: statistics.mean(gain(m["runs"][c], name) for c in cases) for name in BUILDS if name != "release"}
    best = max(mean, key=mean.get)
    rounds = [statistics.mean(m["runs"][c][best][i] / m["runs"][c]["release"][i] - 1 for c in cases) for i in range(m["rounds"])]
    n_worth = sum(r >= WORTH for r in rounds)
    return "\n".join([*lines, "", f"On average over the cases {best} brings the most, {100 * mean[best]:+.1f} %, and in {n_worth} of {len(rounds)} rounds the {100 * WORTH:.0f} % for which a "
                      "longer build would pay" + ("." if n_worth == len(rounds) else ": not in all, so the default build stays the plain one.")])


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model", nargs="?", type=Path)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--gen", type=int, default=48)
    p.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    p.add_argument("--output", type=Path, default=ROOT / "docs")
    a = p.parse_args()
    kept = HOME / "result.json"
    if a.model is not None:
        m = measure(a)
        kept.write_text(json.dumps(m, indent=1))
    write_part(a.output / "benchmarking.md", "bench/optimised_builds.py", text(json.loads(kept.read_text())))


if __name__ == "__main__":
    main()
