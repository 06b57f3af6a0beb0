"""`millrace tune`: measures, chooses, and writes a file that `millrace serve` takes. The model is made up: what counts is the way
from measurements to settings, not what this machine measures."""
import re
import signal
import subprocess
import time

import numpy as np
import pytest
from gguf import GGUFWriter
from program import MILLRACE, run

BYTES = [chr(b) if 33 <= b <= 126 else chr(256 + b) for b in range(256)]
N_EMBD, N_FF, N_LAYER, N_HEAD = 64, 96, 2, 4


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("tune") / "tiny model.gguf"
    w = GGUFWriter(path, "llama")
    w.add_context_length(1024)
    w.add_embedding_length(N_EMBD)
    w.add_block_count(N_LAYER)
    w.add_feed_forward_length(N_FF)
    w.add_head_count(N_HEAD)
    w.add_layer_norm_rms_eps(1e-5)
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre("gpt-2")
    w.add_token_list(["<|end|>"] + BYTES + ["ab"])
    w.add_token_merges(["a b"])
    w.add_eos_token_id(0)
    random = np.random.default_rng(1)

    def add(name, *shape):
        w.add_tensor(name, random.standard_normal(shape, dtype=np.float32) * np.float32(0.1))

    def add_norm(name):
        w.add_tensor(name, np.ones(N_EMBD, dtype=np.float32))

    add("token_embd.weight", 258, N_EMBD)
    add_norm("output_norm.weight")
    for i in range(N_LAYER):
        add_norm(f"blk.{i}.attn_norm.weight")
        add_norm(f"blk.{i}.ffn_norm.weight")
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            add(f"blk.{i}.{name}.weight", N_EMBD, N_EMBD)
        add(f"blk.{i}.ffn_gate.weight", N_FF, N_EMBD)
        add(f"blk.{i}.ffn_up.weight", N_FF, N_EMBD)
        add(f"blk.{i}.ffn_down.weight", N_EMBD, N_FF)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    return path


def rows_of(text):
    """{precision: (is chosen, KL)} of the table."""
    return {m[2]: (m[1] == "*", float(m[3])) for m in re.finditer(r"^([* ]) (\w+) +\d+ MB +([\d.]+) ", text, re.M)}


def test_all_precisions_are_measured_and_one_is_chosen(model, tmp_path):
    file = tmp_path / "deployment.yaml"
    r = run("tune", "-m", model, "--latency-target-ms", 3600000, "--itl-target-ms", 3600000, "--max-kl", 100, "--seconds", 5,
            "-o", file)
    assert r.returncode == 0, r.stderr
    rows = rows_of(r.stdout)
    assert list(rows) == ["fp32", "bf16", "fp16", "int8", "int4"]
    assert rows["fp32"][1] == 0 and rows["int4"][1] > rows["fp16"][1]
    chosen = [name for name, (is_chosen, _) in rows.items() if is_chosen]
    assert len(chosen) == 1 and "keeps all targets" not in r.stdout
    assert r.stderr.count("at a time") >= 5
    assert f"precision: {chosen[0]}\n" in file.read_text()
    shown = run("serve", "--check", "--config", file)
    assert shown.returncode == 0, shown.stderr
    assert f'model: "{model}"  # file\n' in shown.stdout
    assert f"precision: {chosen[0]}  # file\n" in shown.stdout
    assert "  latency_target_ms: 3600000  # file\n" in shown.stdout


def test_quality_bounds_the_choice(model):
    r = run("tune", "-m", model, "--latency-target-ms", 3600000, "--itl-target-ms", 3600000, "--max-kl", 0, "--seconds", 1, "-q")
    assert r.returncode == 0 and r.stderr == ""
    assert rows_of(r.stdout)["fp32"][0]
    assert "\nprecision: fp32\n" in r.stdout


def test_wrong_arguments_are_told(tmp_path):
    for arguments in ([], ["-m", "/nonexistent.gguf"], ["-m", "x", "--seconds", "0"], ["-m", "x", "--text", "/nonexistent"]):
        r = run("tune", *arguments)
        assert r.returncode != 0 and r.stdout == "" and r.stderr.count("\n") == 1


def test_ctrl_c_ends_it_with_what_was_measured(model):
    p = subprocess.Popen([MILLRACE, "tune", "-m", model, "--seconds", "3600", "--itl-target-ms", "3600000"], text=True,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    for line in p.stderr:
        if "at a time" in line:
            break
    time.sleep(0.05)
    p.send_signal(signal.SIGINT)
    out, _ = p.communicate()
    if p.returncode != 0:  # a fast machine may be done
        assert p.returncode == 130 and "fp32" in out
