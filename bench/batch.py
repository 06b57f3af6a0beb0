#!/usr/bin/env python3
"""Batches of real questions: beside online requests, alone, and beside other engines, into docs/batch.md and docs/batch.svg.

    bench/batch.py models/SmolLM2-135M-Instruct.Q4_1.gguf [--cases beside,alone,peers] [--engines 'millrace;llama.cpp;vllm']

beside: single requests come to a server at random moments, at --load of the rate that it can answer, in turn without and with a batch that
has lines to the end; the same moments and the same requests. alone: the rate of a batch, without speculation, as a share of the engine's
peak: what `millrace bench --engine` gets for as many requests of the same lengths, all there at once; prompts are random tokens in both. peers: the first questions of the
conversations as a file of --lines; `millrace batch` and vLLM's run-batch answer it (vLLM its first --vllm-lines: it writes nothing before
the end), clients ask llama.cpp's server for --peer-seconds with each number of --peer-clients, of which the best counts. Answers all
have --gen tokens (`ignore_eos`). build/batch.json keeps what was measured, case by case: without a model the page is
written again from it."""
import argparse
import asyncio
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import load
from page import ROOT, cpu_name, draw, write_part
from peers import prepare_vllm, vllm_environment, vllm_folder
from serving import ask, running

SILENCE_S = 11  # from then on nobody else is expected (docs/engine.md)
CASES = ["beside", "alone", "peers"]


def questions(a, n):
    """Messages of the first turns of n conversations."""
    found = [conversation[0][0] for conversation in load.read_conversations(a.conversations, n)]
    if len(found) < n:
        sys.exit(f"{a.conversations} has {len(found)} usable conversations, fewer than {n}")
    return found


def write_lines(path, model, asked, gen):
    body = {"model": model, "max_tokens": gen, "ignore_eos": True, "temperature": 0}
    path.write_text("".join(json.dumps({"custom_id": f"line-{i}", "method": "POST", "url": "/v1/chat/completions",
                                        "body": {**body, "messages": messages}}) + "\n" for i, messages in enumerate(asked)))


def batch_result(path, seconds):
    """What a batch's output says."""
    found = [json.loads(line)["response"]["body"]["usage"] for line in path.read_text().splitlines()]
    tokens = {key: sum(usage[key] for usage in found) for key in ("prompt_tokens", "completion_tokens")}
    return {"lines": len(found), "seconds": seconds, "prompt_tokens": tokens["prompt_tokens"], "tok_s": tokens["completion_tokens"] / seconds}


# ---- online requests ----

class Online(load.Load):
    """seconds: how long figures are counted after warm_up."""

    def __init__(self, url, model, a, warm_up, seconds):
        super().__init__(url, model, argparse.Namespace(warm_up=warm_up, seconds=warm_up + seconds))

    async def crowd(self, asked, gen, n):
        """n clients ask one after the other until the time is over or no question is left."""
        self.begin, left = time.monotonic(), iter(asked)

        async def client():
            for messages in left:
                await self.ask(messages, gen)

        tasks = [asyncio.create_task(client()) for _ in range(n)]
        await asyncio.wait(tasks, timeout=self.a.seconds)
        self.took = min(time.monotonic() - self.begin, self.a.seconds)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def arrivals(self, asked, gen, rate, seed):
        """Questions come at random moments, so many a second on the mean, whatever the server has answered."""
        moments, tasks, at = random.Random(seed), [], 0
        self.begin = time.monotonic()
        for messages in asked:
            at += moments.expovariate(rate)
            if at > self.a.seconds:
                break
            await asyncio.sleep(max(0, self.begin + at - time.monotonic()))
            tasks.append(asyncio.create_task(self.ask(messages, gen)))
        await asyncio.gather(*tasks)


# ---- batches of a server ----

def send_file(url, path):
    """A form of multipart/form-data, by curl."""
    r = subprocess.run(["curl", "-sS", "--fail-with-body", f"{url}/v1/files", "-F", "purpose=batch", "-F", f"file=@{path}"], check=True,
                       stdout=subprocess.PIPE)
    return json.loads(r.stdout)["id"]


def begin_batch(url, path, endpoint="/v1/chat/completions"):
    """Its id, once lines run."""
    body = {"input_file_id": send_file(url, path), "endpoint": endpoint, "completion_window": "24h"}
    batch = ask(url, "/v1/batches", body)["id"]
    while ask(url, f"/v1/batches/{batch}")["status"] == "validating":
        time.sleep(0.05)
    return batch


def n_done(url, batch):
    counts = ask(url, f"/v1/batches/{batch}")["request_counts"]
    if counts["failed"]:
        raise RuntimeError(f"{counts['failed']} lines of the batch failed")
    return counts["completed"]


def online_run(a, folder, lines, asked, rate, seed):
    """The requests of one run, in a server of its own, which has seen none of the questions. (Online, lines of the batch that were done)."""
    with running("millrace", a, ["--state-dir", folder]) as (url, model, _):
        batch = begin_batch(url, lines) if lines else None
        online = Online(url, model, a, 2, a.seconds)
        asyncio.run(online.arrivals(asked, a.online_gen, rate, seed))
        done = n_done(url, batch) if batch else 0
    if online.errors:
        raise RuntimeError(f"online requests failed: {online.errors}")
    return online, done


def capacity_of(a, asked):
    """Requests a second that as many clients as there are places get answered."""
    with running("millrace", a) as (url, model, _):
        full = Online(url, model, a, a.seconds / 6, a.seconds / 2)
        asyncio.run(full.crowd(asked, a.online_gen, a.places))
        return full.finished / (a.seconds / 2)


def beside(a, folder):
    """{"rate", "runs": {"without": {...}, "with": {...}}, "batch_tok_s"}: questions of the batch and of the online requests differ."""
    asked, lines = questions(a, 2 * a.lines), folder / "long.jsonl"
    write_lines(lines, a.model.stem, asked[:a.lines], a.gen)
    found = {name: {"first": [], "gaps": []} for name in ("without", "with")}
    done = 0
    rate = a.load * capacity_of(a, asked[a.lines:])
    for number in range(a.rounds):
        for name, f in found.items():
            state = folder / f"{name}-{number}"
            online, n = online_run(a, state, lines if name == "with" else None, asked[a.lines + number::a.rounds], rate, number)
            done += n
            f["first"] += online.first
            f["gaps"] += online.gaps
            print(f"  {name} a batch: first token {load.quantiles(online.first)}, gaps {load.quantiles(online.gaps)}", file=sys.stderr)
    runs = {name: {"ttft_ms": load.quantiles(f["first"]), "itl_ms": load.quantiles(f["gaps"]), "n": len(f["first"])} for name, f in found.items()}
    return {"load": a.load, "rate": rate, "seconds": a.seconds, "rounds": a.rounds, "gen": a.online_gen, "runs": runs,
            "batch_tok_s": done * a.gen / (a.rounds * (a.seconds + 2))}


def engine_peak(a):
    """Output tokens a second of requests that are all there at once, without a server, files or texts."""
    r = subprocess.run([a.millrace, "bench", "--engine", "-m", a.model, "--rate", "0", "--requests", str(a.alone_lines), "--prompt", str(a.alone_prompt), "--gen",
                        str(a.gen), "--max-running", str(a.places), "--itl-target", "0", "--admission", "off", "--no-prefix-cache", "--speculation", "off",
                        "-c", str(a.ctx), "-t", str(a.threads)], check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return json.loads(r.stdout)["answer_tokens_per_second"]


def write_token_lines(path, model, a, seed):
    """As write_lines, with prompts of a.alone_prompt random tokens."""
    ids = random.Random(seed)
    body = {"model": model, "max_tokens": a.gen, "ignore_eos": True, "temperature": 0}
    path.write_text("".join(json.dumps({"custom_id": f"line-{i}", "method": "POST", "url": "/v1/completions",
                                        "body": {**body, "prompt": [ids.randrange(1000, 40000) for _ in range(a.alone_prompt)]}}) + "\n"
                            for i in range(a.alone_lines)))


def alone(a, folder):
    """{"peak": [tok/s...], "server": [...], "command": [...]}: other lines each time, of the same lengths."""
    found = {"peak": [], "server": [], "command": []}
    lines = folder / "lines.jsonl"
    for number in range(a.rounds):
        with running("millrace", a, ["--state-dir", folder / f"alone-{number}", "--speculation", "off"]) as (url, model, _):
            write_token_lines(lines, model, a, 2 * number)
            time.sleep(SILENCE_S)
            begin = time.monotonic()
            batch = begin_batch(url, lines, "/v1/completions")
            while n_done(url, batch) < a.alone_lines:
                time.sleep(0.3)  # asking takes its time of the CPUs, too
            found["server"].append(a.alone_lines * a.gen / (time.monotonic() - begin))
        found["peak"].append(engine_peak(a))
        write_token_lines(lines, a.model.stem, a, 2 * number + 1)
        found["command"].append(millrace_batch(a, folder, lines, "--speculation", "off")["tok_s"])
        print(f"  {({name: round(rates[-1]) for name, rates in found.items()})} tokens/s", file=sys.stderr)
    return {"lines": a.alone_lines, "gen": a.gen, "n_prompt": a.alone_prompt, **found}


# ---- engines with a file of lines ----

def millrace_batch(a, folder, lines, *options):
    """The whole command, with the start of the engine."""
    output = folder / "millrace.jsonl"
    begin = time.monotonic()
    subprocess.run([a.millrace, "batch", "-m", a.model, lines, "-o", output, "-c", str(a.ctx), "-t", str(a.threads), "--parallel", str(a.places),
                    "--overwrite", *options], check=True, stderr=subprocess.DEVNULL)
    return batch_result(output, time.monotonic() - begin)


def vllm_batch(a, folder, lines):
    """Of its progress bar's time: its start, which takes minutes, is not counted."""
    some, output = folder / "vllm-in.jsonl", folder / "vllm.jsonl"
    some.write_text("".join(lines.read_text().splitlines(keepends=True)[:a.vllm_lines]))
    command = [prepare_vllm(), "-m", "vllm.entrypoints.openai.run_batch", "-i", some, "-o", output, "--model",
               vllm_folder(a.model, a.vllm_dtype), "--served-model-name", a.model.stem, "--max-model-len", str(a.ctx), "--max-num-seqs", str(a.places),
               "--dtype", a.vllm_dtype, *a.vllm_options.split()]
    r = subprocess.run(list(map(str, command)), check=True, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True,
                       env={**os.environ, **vllm_environment()}, timeout=a.vllm_timeout)
    (ROOT / "build/batch-vllm.log").write_text(r.stderr)
    clocks = re.findall(r"Running batch: 100%[^\[]*\[([\d:]+)<", r.stderr)
    seconds = sum(60 ** i * int(part) for i, part in enumerate(reversed(clocks[-1].split(":"))))
    return {**batch_result(output, seconds), "dtype": a.vllm_dtype}


def llama_cpp(a, folder, lines):
    """The best number of clients, each for a.peer_seconds; its prompts are new to the server every time."""
    asked, tried = [json.loads(line)["body"]["messages"] for line in lines.read_text().splitlines()], []
    for number, clients in enumerate(a.peer_clients):
        with running("llama.cpp", argparse.Namespace(**{**vars(a), "places": clients})) as (url, model, _):
            crowd = Online(url, model, a, a.peer_seconds / 4, a.peer_seconds)
            asyncio.run(crowd.crowd(asked[number::len(a.peer_clients)], a.gen, clients))
        if crowd.errors:
            raise RuntimeError(f"requests failed: {crowd.errors}")
        tried.append({"clients": clients, "lines": crowd.finished, "seconds": a.peer_seconds, "tok_s": crowd.n_tokens / a.peer_seconds})
        print(f"  llama.cpp: {tried[-1]}", file=sys.stderr)
    return max(tried, key=lambda t: t["tok_s"])


ENGINES = {"millrace": millrace_batch, "llama.cpp": llama_cpp, "vllm": vllm_batch}


def peers(a, folder):
    """{"lines", "gen", "engines": {name: {"lines", "seconds", "tok_s"} or {"failed"}}}"""
    lines, found = folder / "lines.jsonl", {}
    write_lines(lines, a.model.stem, questions(a, a.lines), a.gen)
    for name in a.engines:
        try:
            found[name] = ENGINES[name](a, folder, lines)
        except (RuntimeError, subprocess.SubprocessError, OSError, IndexError) as error:
            found[name] = {"failed": str(error)[:200]}
        print(f"  {name}: {found[name]}", file=sys.stderr)
    return {"lines": a.lines, "gen": a.gen, "peer_clients": a.peer_clients, "engines": found}


# ---- the page ----

def growth(runs, what):
    return 100 * (runs["with"][what]["p99"] / runs["without"][what]["p99"] - 1)


def beside_text(b):
    lines = [f"Beside online requests, {b['rate']:.1f} a second at random moments, {100 * b['load']:.0f} % of what the server can answer, {b['gen']} tokens "
             f"each, {b['rounds']} x {b['seconds']:.0f} s in turn without and with a batch (milliseconds):", "",
             "| | requests | first token P50 | P99 | between tokens P50 | P99 |", "|---|---|---|---|---|---|"]
    for name, f in b["runs"].items():
        lines.append(f"| {name} a batch | {f['n']} | {f['ttft_ms']['p50']:,.0f} | {f['ttft_ms']['p99']:,.0f} | {f['itl_ms']['p50']:,.0f} | {f['itl_ms']['p99']:,.0f} |")
    return [*lines, "", f"The 99th percentiles change by {growth(b['runs'], 'ttft_ms'):+.0f} and {growth(b['runs'], 'itl_ms'):+.0f} %; the batch gets {b['batch_tok_s']:.0f} "
            "tokens/s of what is left.", ""]


def middle(values):
    return sorted(values)[len(values) // 2]


def alone_text(m):
    def said(name):
        share = middle([rate / peak for rate, peak in zip(m[name], m["peak"])])
        return f"{middle(m[name]):.0f} tokens/s ({100 * share:.0f} %)"

    return [f"With nobody else, {m['lines']} lines with prompts of {m['n_prompt']} tokens and answers of {m['gen']}: a server's batch gets "
            f"{said('server')}, the command with its start {said('command')}, both without speculation. The share is of {middle(m['peak']):.0f}, the engine's peak: what "
            "`millrace bench --engine` in the same round gets for as many requests of the same lengths that are all there at once, without server and files.", ""]


def peers_text(m):
    lines = [f"A file of {m['lines']:,} first questions of conversations, answers of {m['gen']} tokens:", "",
             "| engine | lines answered | seconds | lines/s | output tokens/s |", "|---|---|---|---|---|"]
    for name, f in m["engines"].items():
        lines.append(f"| {name} | not measured: {f['failed']} | | | |" if "failed" in f else
                     f"| {name} | {f['lines']:,} | {f['seconds']:,.0f} | {f['lines'] / f['seconds']:.2f} | {f['tok_s']:,.0f} |")
    done = {name: f["tok_s"] for name, f in m["engines"].items() if "failed" not in f}
    others = [rate for name, rate in done.items() if name != "millrace"]
    said = []
    if others and max(others) > 0 and "millrace" in done:
        said.append(f"Millrace gets {done['millrace'] / max(others):.1f} times the best of the others. Its seconds are the whole command, with the start.")
    if "clients" in m["engines"].get("llama.cpp", {}):
        f = m["engines"]["llama.cpp"]
        said.append(f"Clients asked llama.cpp's server, and were counted once all its places were busy; of {', '.join(map(str, m['peer_clients']))} at a time {f['clients']} "
                    "got the most.")
    if "dtype" in m["engines"].get("vllm", {}):
        f = m["engines"]["vllm"]
        said.append(f"vLLM ran the same weights in {f['dtype']}, the fastest type that it has here, and answered the first lines only; its start, which takes minutes, is not counted, "
                    "while the filling and emptying of its places at the ends is.")
    said = [" ".join(said), ""] if said else []
    return [*lines, "", *said, "![output tokens a second](batch.svg)"]


def text(m):
    parts = {"beside": beside_text, "alone": alone_text, "peers": peers_text}
    lines = [f"{m['model']}, {m['cpu']}, {m['threads']} threads, {m['places']} places.", ""]
    return "\n".join(lines + [line for name, write in parts.items() if name in m for line in write(m[name])])


PLOT = """
found = {n: f["tok_s"] for n, f in d["peers"]["engines"].items() if "failed" not in f}
fig, ax = plt.subplots(figsize=(6, 0.5 * len(found) + 0.9), layout="constrained")
ax.bar_label(ax.barh(list(found), list(found.values())), fmt="%.0f", padding=3, fontsize=8)
ax.invert_yaxis()
ax.margins(x=0.12)
ax.spines[["top", "right"]].set_visible(False)
ax.set_xlabel("output tokens a second")
"""


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model", nargs="?", type=Path)
    p.add_argument("--millrace", default=str(ROOT / "build/millrace"))
    p.add_argument("--cases", type=lambda s: s.split(","), default=CASES)
    p.add_argument("--engines", type=lambda s: s.split(";"), default=list(ENGINES), help="names with ';' between them")
    p.add_argument("--lines", type=int, default=2000)
    p.add_argument("--vllm-lines", type=int, default=400)
    p.add_argument("--alone-lines", type=int, default=128)
    p.add_argument("--alone-prompt", type=int, default=154, help="tokens; the mean of the questions")
    p.add_argument("--gen", type=int, default=64, help="tokens of each answer")
    p.add_argument("--online-gen", type=int, default=32, help="the same of online requests")
    p.add_argument("--load", type=float, default=0.6, help="of what the server can answer")
    p.add_argument("--seconds", type=float, default=60, help="of each online run")
    p.add_argument("--peer-seconds", type=float, default=60, help="for each of --peer-clients, after a fourth of it that isn't counted")
    p.add_argument("--peer-clients", type=lambda s: list(map(int, s.split(","))), default=[8, 16, 32], help="numbers of clients of llama.cpp's server")
    p.add_argument("--rounds", type=int, default=2)
    p.add_argument("--places", type=int, default=32, help="answers at a time")
    p.add_argument("--ctx", type=int, default=4096)
    p.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    p.add_argument("--conversations", type=Path, default=ROOT / "models/sharegpt.json")
    p.add_argument("--vllm-dtype", default="float32", help="bfloat16 is slow where the CPU has no instructions for it")
    p.add_argument("--vllm-options", default="")
    p.add_argument("--vllm-timeout", type=float, default=1200)
    p.add_argument("--output", type=Path, default=ROOT / "docs")
    return p.parse_args()


def main():
    a = arguments()
    kept = ROOT / "build/batch.json"
    if a.model is not None:
        m = {"model": a.model.name, "cpu": cpu_name(), "threads": a.threads, "places": a.places}
        old = json.loads(kept.read_text()) if kept.exists() else {}
        if all(old.get(key) == m[key] for key in m):
            m = old
        for name in a.cases:
            print(f"{name}:", file=sys.stderr)
            with tempfile.TemporaryDirectory() as folder:
                m[name] = {"beside": beside, "alone": alone, "peers": peers}[name](a, Path(folder))
            kept.write_text(json.dumps(m, indent=1))
    m = json.loads(kept.read_text())
    write_part(a.output / "batch.md", "bench/batch.py", text(m))
    if "peers" in m:
        draw(PLOT, m, a.output / "batch.svg")


if __name__ == "__main__":
    main()
