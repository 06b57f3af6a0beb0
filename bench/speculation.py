#!/usr/bin/env python3
"""What guessed tokens bring, by method and task, and under load, into docs/speculation.md and docs/speculation.svg.

    bench/speculation.py models/SmolLM2-135M-Instruct.Q4_1.gguf [--draft-model FILE] [--cases tasks,batches,load,acceptance] [--rounds 3] [--requests 300]

tasks: `millrace bench --speculation`, one stream at a time, greedy, each task by every method beside a plain run, whose tokens must be the same; and a question that was asked
before, by a server. batches: the same with more answers at a time, and the plot of it. load: first questions of real
conversations, asked by 1, 4, 16 and 32 clients, by a server with `--speculation auto` and by one without, in turn. Every question comes to a server once, so
that no answer is guessed from itself. acceptance: `millrace bench --replay`, guesses that are right in so many of a
hundred tokens, for one answer at a time, and for more at 70; any model, whose figures stand beside those of others. build/speculation.json keeps the
figures: without a model the page is written again from it."""
import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

from batch import Online, questions
from page import ROOT, cpu_name, draw, write_part
from serving import ask, running

AGAIN = "Explain in some paragraphs how a water mill works and what a millrace is for. Be brief."
METHODS = ["off", "ngram", "reference", "lookahead", "layers", "draft", "auto"]
CLIENTS = [1, 4, 16, 32]
ACCEPTANCE = [0, 30, 50, 70, 80, 90, 100]
STREAMS, OFTEN = [1, 2, 4, 8, 16, 32], 70
BATCHES, BATCH_GEN = [1, 4, 16], 48


def measured(a, *options):
    """The results of `millrace bench --speculation`."""
    draft = ["--draft-model", a.draft_model] if a.draft_model else []
    r = subprocess.run([a.millrace, "bench", "--speculation", "-m", a.model, "-t", str(a.threads), "--repeat", str(a.rounds), *draft, *options, "--json"],
                       check=True, stdout=subprocess.PIPE)
    return json.loads(r.stdout)["results"]


def answer(url, model, method):
    body = {"model": model, "messages": [{"role": "user", "content": AGAIN}], "max_tokens": 256, "temperature": 0, "speculation": method}
    reply = ask(url, "/v1/chat/completions", body, timeout=600)
    t = reply["timings"]
    return reply["choices"][0]["message"]["content"], t["predicted_per_second"], t["predicted_n"], t.get("draft_n", 0), t.get("draft_n_accepted", 0)


def asked_again(a):
    """Of a question that somebody asked before."""
    found = []
    with running("millrace", a, ["--draft-model", a.draft_model] if a.draft_model else []) as (url, model, _):
        answer(url, model, "reference")  # one that has `off` is not kept
        for method in ("reference", "auto"):
            runs = []
            for _ in range(a.rounds):
                plain, base, *_ = answer(url, model, "off")
                text, rate, n, drafted, accepted = answer(url, model, method)
                if text != plain:
                    sys.exit(f"asked again, {method}: the answer is not that of the plain run")
                runs.append((rate / base, base))
            found.append({"task": "asked again", "method": method, "streams": 1, "ratio": statistics.median(r for r, _ in runs), "tokens_per_step": n / max(1, n - accepted),
                          "plain_tok_s": statistics.median(b for _, b in runs), "drafted_per_token": drafted / n, "accepted_per_token": accepted / n, "guess_share": None})
    return found


def tasks(a):
    return {"rounds": a.rounds, "results": [*measured(a), *asked_again(a)]}


def batches(a):
    return {"rounds": a.rounds, "gen": BATCH_GEN, "results": measured(a, "--batch", listed(BATCHES), "--gen", str(BATCH_GEN))}


def under_load(a):
    asked, found = questions(a, a.requests), {}
    for number in range(a.load_rounds):
        for n in CLIENTS:
            for method in ("off", "auto"):
                with running("millrace", a, ["--speculation", method]) as (url, model, _):
                    crowd = Online(url, model, a, 0, 3600)
                    asyncio.run(crowd.crowd(asked, a.gen, n))
                if crowd.errors:
                    sys.exit(f"requests failed: {crowd.errors}")
                found.setdefault(n, {}).setdefault(method, []).append(crowd.n_tokens / crowd.took)
                print(f"  {n} clients, {method}: {found[n][method][-1]:.0f} tokens/s", file=sys.stderr)
    return {"requests": a.requests, "gen": a.gen, "rounds": a.load_rounds, "found": found}


def replay(a, *options):
    r = subprocess.run([a.millrace, "bench", "--replay", ROOT / "README.md", "-m", a.model, "-t", str(a.threads), "--gen", str(a.gen), "--repeat", str(a.rounds),
                        *options, "--json"], check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return json.loads(r.stdout)["results"]


def listed(numbers):
    return ",".join(map(str, numbers))


def acceptance(a):
    """{"gen", "rounds", "by_acceptance": [...], "by_streams": [...]}"""
    found = {"gen": a.gen, "rounds": a.rounds, "by_acceptance": replay(a, "--acceptance", listed(ACCEPTANCE)),
             "by_streams": replay(a, "--acceptance", str(OFTEN), "--batch", listed(STREAMS))}
    print(f"  {[round(f['ratio'], 2) for f in found['by_acceptance']]}, {[round(f['ratio'], 2) for f in found['by_streams']]}", file=sys.stderr)
    return found


def cell(f):
    if f is None:
        return "-"
    kept = f", {100 * f['accepted_per_token'] / f['drafted_per_token']:.0f} %" if f["drafted_per_token"] else ""
    cost = f"; {100 * f['guess_share']:.1f} %" if f["guess_share"] is not None else ""
    return f"**{f['ratio']:.2f}** ({f['tokens_per_step']:.1f}{kept}{cost})"


def tasks_text(m):
    lines = [f"One stream, greedy, {m['rounds']} round(s) in turn (`millrace bench --speculation`): the rate over that of the plain run, tokens that come in a step, the share of guesses that stay; "
             "the share of the time in which nothing is verified because guesses are made. `off` beside the plain run is the noise.", "",
             "| task | plain, tok/s | " + " | ".join(METHODS) + " |", "|---" * (len(METHODS) + 2) + "|"]
    for task in dict.fromkeys(f["task"] for f in m["results"]):
        by = {f["method"]: f for f in m["results"] if f["task"] == task}
        plain = statistics.median(f["plain_tok_s"] for f in by.values())
        lines.append(f"| {task} | {plain:,.0f} | " + " | ".join(cell(by.get(method)) for method in METHODS) + " |")
    return [*lines, ""]


def by_batch(m):
    """{task: {streams: what auto brings}}"""
    found = {}
    for f in m["results"]:
        if f["method"] == "auto":
            found.setdefault(f["task"], {})[f["streams"]] = f["ratio"]
    return found


def batches_text(m):
    lines = [f"`auto` over `off` by answers at a time, of {m['gen']} tokens, {m['rounds']} round(s):", "",
             "| task | " + " | ".join(map(str, BATCHES)) + " |", "|---" * (len(BATCHES) + 1) + "|"]
    lines += [f"| {task} | " + " | ".join(f"{ratios[n]:.2f}" for n in BATCHES) + " |" for task, ratios in by_batch(m).items()]
    return [*lines, "", "![the speed-up by answers at a time](speculation-batch.svg)", ""]


def gains(m):
    """{clients: median of auto over off}"""
    return {int(n): statistics.median(x / y for x, y in zip(f["auto"], f["off"])) for n, f in m["found"].items()}


def load_text(m):
    lines = [f"{m['requests']} first questions of conversations, answers of {m['gen']} tokens, greedy, {m['rounds']} round(s) in turn, output tokens a second:", "",
             "| clients | `off` | `auto` | |", "|---|---|---|---|"]
    for n, gain in gains(m).items():
        f = m["found"][str(n)]
        lines.append(f"| {n} | {statistics.median(f['off']):,.0f} | {statistics.median(f['auto']):,.0f} | {100 * (gain - 1):+.1f} % |")
    return [*lines, "", "![what guesses bring by the number of clients](speculation.svg)"]


def acceptance_text(found):
    lines = ["The speed-up with guesses that are right in so many of a hundred tokens (`millrace bench --replay`), one answer at a time, and the tokens that come in a step:", "",
             "| model | plain, tok/s | " + " | ".join(f"{n} %" for n in ACCEPTANCE) + " |", "|---" * (len(ACCEPTANCE) + 2) + "|"]
    for name, m in found.items():
        cells = [f"**{f['ratio']:.2f}** ({1 / (1 - min(f['accepted_per_token'], 0.999)):.1f})" for f in m["by_acceptance"]]
        lines.append(f"| {name} | {statistics.median(f['plain_tok_s'] for f in m['by_acceptance']):,.1f} | " + " | ".join(cells) + " |")
    lines += ["", f"The same at {OFTEN} %, by the number of answers at a time:", "", "| model | " + " | ".join(map(str, STREAMS)) + " |", "|---" * (len(STREAMS) + 1) + "|"]
    for name, m in found.items():
        lines.append(f"| {name} | " + " | ".join(f"{f['ratio']:.2f}" for f in m["by_streams"]) + " |")
    return [*lines, "", "![the speed-up by the share of right guesses, and by answers at a time](speculation-acceptance.svg)", ""]


def text(m):
    lines = [f"{m['model']}, {m['cpu']}, {m['threads']} threads" + (f", draft model {m['draft']}" if m.get("draft") else "") + ".", ""]
    return "\n".join(lines + (tasks_text(m["tasks"]) if "results" in m.get("tasks", {}) else []) +
                     (batches_text(m["batches"]) if "batches" in m else []) + (acceptance_text(m["acceptance"]) if m.get("acceptance") else []) +
                     (load_text(m["load"]) if "load" in m else []))


PLOT = """
fig, ax = plt.subplots(figsize=(6, 2.6), layout="constrained")
clients = list(d)
ax.plot(clients, [100 * (d[n] - 1) for n in clients], "o-")
ax.axhline(0, color="0.6", linewidth=1)
ax.axhline(-2, color="0.8", linewidth=1, linestyle="--")
ax.set_xlabel("clients at a time")
ax.set_ylabel("auto over off, %")
ax.spines[["top", "right"]].set_visible(False)
"""


BATCH_PLOT = """
fig, ax = plt.subplots(figsize=(6, 2.8), layout="constrained")
for task, ratios in d.items():
    ax.plot([int(n) for n in ratios], list(ratios.values()), "o-", label=task)
ax.axhline(1, color="0.6", linewidth=1)
ax.set_xscale("log", base=2)
ax.set_xlabel("answers at a time")
ax.set_ylabel("auto, times the plain rate")
ax.legend(fontsize=7)
ax.spines[["top", "right"]].set_visible(False)
"""


ACCEPTANCE_PLOT = """
fig, (left, right) = plt.subplots(1, 2, figsize=(8, 2.8), layout="constrained", sharey=True)
for name, m in d.items():
    left.plot([100 * f["acceptance"] for f in m["by_acceptance"]], [f["ratio"] for f in m["by_acceptance"]], "o-", label=name)
    right.plot([f["streams"] for f in m["by_streams"]], [f["ratio"] for f in m["by_streams"]], "o-")
left.set_xlabel("right guesses, %")
left.set_ylabel("times the plain rate")
left.legend(fontsize=7)
right.set_xscale("log", base=2)
right.set_xticks([1, 2, 4, 8, 16, 32], [1, 2, 4, 8, 16, 32])
right.set_xlabel("answers at a time, 70 % right")
for ax in (left, right):
    ax.axhline(1, color="0.6", linewidth=1)
    ax.spines[["top", "right"]].set_visible(False)
"""


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model", nargs="?", type=Path)
    p.add_argument("--millrace", default=str(ROOT / "build/millrace"))
    p.add_argument("--draft-model", help="a smaller model of the same vocabulary")
    p.add_argument("--cases", type=lambda s: s.split(","), default=["tasks", "batches", "load"])
    p.add_argument("--rounds", type=int, default=3, help="of the tasks")
    p.add_argument("--load-rounds", type=int, default=1)
    p.add_argument("--requests", type=int, default=300)
    p.add_argument("--gen", type=int, default=64)
    p.add_argument("--places", type=int, default=32)
    p.add_argument("--ctx", type=int, default=4096)
    p.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    p.add_argument("--conversations", type=Path, default=ROOT / "models/sharegpt.json")
    p.add_argument("--output", type=Path, default=ROOT / "docs")
    a = p.parse_args()
    kept = ROOT / "build/speculation.json"
    if a.model is not None:
        m = {"model": a.model.name, "cpu": cpu_name(), "threads": a.threads, "draft": Path(a.draft_model).name if a.draft_model else None}
        old = json.loads(kept.read_text()) if kept.exists() else {}
        if all(old.get(key) == m[key] for key in m) or a.cases == ["acceptance"]:
            m = old or m
        m.setdefault("acceptance", old.get("acceptance", {}))
        for name in a.cases:
            print(f"{name}:", file=sys.stderr)
            if name == "acceptance":
                m[name][a.model.name] = acceptance(a)
            else:
                m[name] = {"tasks": tasks, "batches": batches, "load": under_load}[name](a)
            kept.write_text(json.dumps(m, indent=1))
    m = json.loads(kept.read_text())
    write_part(a.output / "speculation.md", "bench/speculation.py", text(m))
    if m.get("acceptance"):
        draw(ACCEPTANCE_PLOT, m["acceptance"], a.output / "speculation-acceptance.svg")
    if "batches" in m:
        draw(BATCH_PLOT, by_batch(m["batches"]), a.output / "speculation-batch.svg")
    if "load" in m:
        draw(PLOT, gains(m["load"]), a.output / "speculation.svg")


if __name__ == "__main__":
    main()
