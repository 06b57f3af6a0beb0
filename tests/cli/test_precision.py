"""`millrace precision`, on a small model that was trained for a moment in fp32, so that its weights are off any grid: the way from
step to step, not what this machine measures."""
import json
import signal
import subprocess
import time
import xml.etree.ElementTree as ElementTree

import byte_tokenizer
import numpy as np
import pytest
from gguf import GGUFReader
from program import MILLRACE, run

SHAPE = ["--layers", 2, "--width", 256, "--heads", 4, "--kv-heads", 2, "--channels", 256, "--context", 128, "--type", "f32"]
WORDS = ("the mill stands where the river bends", "in spring the water is high", "the miller mends sacks")
MIXES = ["q6_k", "q5_k_m", "q4_k_m", "q3_k_m", "q2_k"]


def spike(path):
    """A large weight in each block of 32: 4 bits leave little for the others, 8 bits enough."""
    for t in GGUFReader(str(path), "r+").tensors:
        if "ffn" in t.name and len(t.shape) == 2:
            t.data[:, ::32] *= 64


@pytest.fixture(scope="module")
def lesson(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lesson")
    r = run("init", "--tokenizer", byte_tokenizer.write(folder / "tokenizer.gguf"), "-o", folder / "new.gguf", *SHAPE)
    assert r.returncode == 0, r.stderr
    spike(folder / "new.gguf")
    text = ". ".join(WORDS[i * i % 3] + f" and {i % 7}" for i in range(60))
    (folder / "text.txt").write_text(text)
    (folder / "held.txt").write_text(text[100:2000])
    r = run("distill", "-m", folder / "new.gguf", "-f", folder / "text.txt", "-o", folder / "model.gguf", "--ce", 1, "--kl", 0,
            "--type", "f32", "--tokens", 32, "--batch", 2, "--steps", 80, "--warmup", 5, "--rate", "3e-3", "--held-out", 2)
    assert r.returncode == 0, r.stderr
    lines = [{"target": i % 2, "arguments": [[f"{WORDS[i % 3]} {i}", " ab"], [f"{WORDS[i % 3]} {i}", " xy"]]} for i in range(20)]
    (folder / "samples_toy.jsonl").write_text("\n".join(map(json.dumps, lines)))
    return folder


def arguments(lesson, out, *more):
    return ["precision", "-m", lesson / "model.gguf", "--calibrate", lesson / "text.txt", "-o", out, "-t", 1, *more]


def names(report):
    return [s["name"] for s in report["steps"]]


def models(folder):
    return sorted(p.stem for p in folder.glob("*.gguf"))


def test_all_steps_where_everything_is_allowed(lesson, tmp_path):
    out = tmp_path / "ladder"
    r = run(*arguments(lesson, out, "-f", lesson / "held.txt", "--max-drop", "100%", "--json"))
    assert r.returncode == 0, r.stderr
    report = json.loads(r.stdout)
    assert names(report) == ["fp32", "bf16", "fp16", "int8", "int4", "q3_k_m", "q2_k"] and report["deploy"] == "q2_k"
    step = {s["name"]: s for s in report["steps"]}
    assert step["fp32"]["drop"] == 0 and "accuracy" not in step["fp32"]
    assert step["fp32"]["file_bytes"] > step["fp16"]["file_bytes"] > step["int8"]["file_bytes"] > step["int4"]["file_bytes"]
    kl = [step[name]["evaluation"][0]["text"]["kl"]["mean"] for name in ("fp16", "int8", "int4", "q2_k")]
    assert kl == sorted(kl) and kl[0] < 1e-5
    assert all(s["tok_s"] > 0 and s["ttft_ms"] > 0 and s["peak_bytes"] > s["weight_bytes"] > 0 for s in report["steps"])
    assert models(out) == ["q2_k", "statistics"]
    assert json.loads((out / "report.json").read_text()) == report
    table = [line for line in (out / "report.md").read_text().splitlines() if line.startswith("|")]
    assert len(table) == 2 + 7 and len({line.count("|") for line in table}) == 1
    assert "**Deploy q2_k**" in (out / "report.md").read_text() and "dequantised" not in (out / "report.md").read_text()
    assert ElementTree.parse(out / "report.svg").getroot().tag.endswith("svg")
    shown = run("serve", "--check", "--config", out / "deployment.yaml")
    assert shown.returncode == 0 and f'model: "{out.resolve()}/q2_k.gguf"' in shown.stdout, shown.stderr


def test_the_threshold_ends_it_and_mixes_lie_between(lesson, tmp_path):
    """A threshold between what int8 and int4 lose leads to the mixes between them."""
    seen = json.loads(run(*arguments(lesson, tmp_path / "all", "-f", lesson / "held.txt", "--max-drop", 1, "--json")).stdout)
    drop = {s["name"]: s["drop"] for s in seen["steps"]}
    out = tmp_path / "some"
    assert abs(drop["int8"]) < drop["int4"] / 3
    most = drop["int4"] / 2
    r = run(*arguments(lesson, out, "-f", lesson / "held.txt", "--max-drop", most, "--json", "--keep"))
    assert r.returncode == 0, r.stderr
    report = json.loads(r.stdout)
    within = {s["name"]: s["is_within"] for s in report["steps"]}
    assert all(is_within == (s["drop"] <= most) for s, is_within in zip(report["steps"], within.values()))
    assert within["int8"] and not within["int4"] and names(report)[5] == "q6_k"
    mixes = [name for name in names(report) if name in MIXES]
    assert all(within[name] for name in mixes[:-1])  # the first beyond the threshold is the last
    small = min((s for s in report["steps"] if s["is_within"]), key=lambda s: s["file_bytes"])
    assert report["deploy"] == small["name"] and models(out) == sorted([*names(report), "statistics"])


def test_accuracy_over_tasks_decides(lesson, tmp_path):
    r = run(*arguments(lesson, tmp_path / "out", "--tasks", lesson / "samples_toy.jsonl", "--max-drop", "1%", "--json"))
    assert r.returncode == 0, r.stderr
    report = json.loads(r.stdout)
    base = report["steps"][0]
    assert base["accuracy"] == base["evaluation"][0]["tasks"]["toy"]["acc"]["rate"] > 0 and "perplexity" not in base
    for s in report["steps"]:
        assert s["drop"] == pytest.approx(1 - s["accuracy"] / base["accuracy"], abs=1e-9)
        assert s["is_within"] == (s["drop"] <= 0.01)


def test_an_interrupted_run_goes_on(lesson, tmp_path):
    out = tmp_path / "out"
    command = arguments(lesson, out, "-f", lesson / "held.txt", "--max-drop", "100%")
    p = subprocess.Popen([MILLRACE, *map(str, command)], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    for line in p.stderr:
        if line.startswith("fp16"):
            break
    p.send_signal(signal.SIGINT)
    rest = p.communicate(timeout=60)[1]
    assert p.returncode == 130 and rest.count("\n") >= 1
    before = json.loads((out / "report.json").read_text())
    assert names(before)[:3] == ["fp32", "bf16", "fp16"] and "deploy" not in before
    assert "interrupted" in (out / "report.md").read_text() and not (out / "deployment.yaml").exists()
    assert not list(out.glob("*.partial*"))
    r = run(*command, "--json")
    assert r.returncode == 0 and r.stderr.count("measured before") == len(before["steps"]), r.stderr
    report = json.loads(r.stdout)
    assert report["steps"][:len(before["steps"])] == before["steps"] and report["deploy"] == "q2_k"
    begin = time.time()
    again = run(*command, "--json")
    assert again.returncode == 0 and json.loads(again.stdout) == report
    assert all(p.stat().st_mtime < begin for p in out.glob("*.gguf"))  # nothing is made again
    r = run(*command[:-1], "50%")
    assert r.returncode == 1 and "another folder" in r.stderr


def test_bad_input_is_told_before_work_is_lost(lesson, tmp_path):
    out = tmp_path / "out"
    (tmp_path / "short.txt").write_text("short")
    data = (lesson / "model.gguf").read_bytes()
    tensor = next(t for t in GGUFReader(str(lesson / "model.gguf")).tensors if t.name == "blk.1.ffn_up.weight")
    at = int(tensor.data_offset) + 40
    (tmp_path / "nan.gguf").write_bytes(data[:at] + np.float32(np.nan).tobytes() + data[at + 4:])
    good = arguments(lesson, out, "-f", lesson / "held.txt")
    for args, status, word in ((["precision"], 2, "--model"), (good[:3], 2, "--calibrate"), (good[:5], 2, "folder"),
                               (good[:7], 2, "--tasks"), ([*good, "--max-drop", "-1"], 2, "--max-drop"),
                               ([*good, "--max-drop", "2"], 2, "--max-drop"), ([*good, "--max-drop", "1%%"], 2, "--max-drop"),
                               ([*good[:4], tmp_path / "short.txt", *good[5:]], 1, "too few"),
                               ([*good[:4], tmp_path / "none.txt", *good[5:]], 1, "none.txt"),
                               (["precision", "-m", tmp_path / "nan.gguf", *good[3:]], 1, "blk.1.ffn_up")):
        r = run(*args)
        assert r.returncode == status and word in r.stderr and r.stderr.count("\n") == 1, (args, r.stderr)
        assert not (out / "deployment.yaml").exists()
    r = run(*good, "--max-drop", "0", "--json")  # what the failed ones left is no hindrance
    assert r.returncode == 0 and json.loads(r.stdout)["deploy"], r.stderr


def test_a_full_disk_is_told(lesson, tmp_path):
    limit = "import resource, signal, os, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);" \
            "resource.setrlimit(resource.RLIMIT_FSIZE, (200000, 200000)); os.execv(sys.argv[1], sys.argv[1:])"
    out = tmp_path / "out"
    r = subprocess.run(["python3", "-c", limit, MILLRACE, *map(str, arguments(lesson, out, "-f", lesson / "held.txt"))],
                       capture_output=True, text=True)
    assert r.returncode == 1 and r.stderr.startswith("millrace precision: fp32: "), r.stderr
    assert models(out) == [] and [p.name for p in out.iterdir() if ".partial" in p.name] == []
