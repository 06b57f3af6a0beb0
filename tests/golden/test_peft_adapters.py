"""LoRA adapters that PEFT saved: converted by `millrace adapter`, they give what PEFT computes in float32 (make_adapters.py)."""
import json
import os
import shutil
import struct
import subprocess
from pathlib import Path

import gguf
import numpy as np
import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
DATA = Path(__file__).parent / "data"
MILLRACE = os.environ.get("MILLRACE", ROOT / "build/release/millrace")
PROGRAMS = Path(os.environ.get("MILLRACE_BUILD", ROOT / "build/release")) / "tests"
SMOLLM2 = ROOT / "models/SmolLM2-135M-Instruct.Q4_1.gguf"
NAMES = ["llama3", "qwen3", "gemma3", "gpt2", "smollm2"]
ARCH = {"llama3": "llama", "smollm2": "llama"}


def model_of(name):
    if name == "smollm2" and not SMOLLM2.exists():
        pytest.skip("no SmolLM2 in models/: make model")
    return SMOLLM2 if name == "smollm2" else DATA / f"tiny_{name}.gguf"


def convert(folder, out, *options):
    return subprocess.run([MILLRACE, "adapter", folder, "-o", out, *options], capture_output=True, text=True)


def logits(name, adapter, reference, precision="fp32"):
    ids, prompt = reference[f"{name}_ids"], reference[f"{name}_prompt"]
    options = ["--lora", adapter] if adapter else []
    data = struct.pack("<ii", len(prompt), 8) + prompt.tobytes()
    run = subprocess.run([PROGRAMS / "logits_dump", *options, model_of(name), precision, "0", "512", str(len(ids)),
                          *map(str, ids)], input=data, capture_output=True)
    assert run.returncode == 0, run.stderr.decode()
    return np.frombuffer(run.stdout, np.float32).reshape(8, 3 + len(ids))[:, 3:]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("with_base", [True, False])
def test_logits_are_those_of_peft(name, with_base, tmp_path):
    model, reference = model_of(name), np.load(DATA / "adapters.npz")
    out = tmp_path / "adapter.gguf"
    done = convert(DATA / f"peft_{name}", out, *(["-m", model] if with_base else []))
    assert done.returncode == 0, done.stderr
    want = reference[f"{name}_adapted"]
    assert np.abs(want - reference[f"{name}_plain"]).max() > 0.1
    worst = np.abs(logits(name, out, reference) - want).max()
    print(f"{name}: largest difference of a logit {worst:.2e}")
    assert worst < 1e-3
    assert np.abs(logits(name, None, reference) - reference[f"{name}_plain"]).max() < 1e-3


def test_the_file_is_as_other_programs_expect_it(tmp_path):
    out = tmp_path / "adapter.gguf"
    assert convert(DATA / "peft_llama3", out, "-m", model_of("llama3")).returncode == 0
    reader = gguf.GGUFReader(out)
    field = {k: reader.get_field(k).contents() for k in ("general.type", "general.architecture", "adapter.type",
                                                         "adapter.lora.alpha")}
    assert field == {"general.type": "adapter", "general.architecture": "llama", "adapter.type": "lora",
                     "adapter.lora.alpha": 6.0}
    shape = {t.name: tuple(int(n) for n in t.shape) for t in reader.tensors}
    assert len(shape) == 2 * 2 * 7
    assert shape["blk.1.attn_k.weight.lora_a"] == (64, 4) and shape["blk.1.attn_k.weight.lora_b"] == (4, 32)


@pytest.mark.parametrize("change, reason", [
    ({"peft_type": "IA3"}, "'peft_type' is IA3"),
    ({"use_dora": True}, "'use_dora'"),
    ({"bias": "lora_only"}, "'bias' is 'lora_only'"),
    ({"lora_bias": True}, "'lora_bias'"),
    ({"modules_to_save": ["lm_head"]}, "'modules_to_save'"),
    ({"alpha_pattern": {"q_proj": 3}}, "'alpha_pattern'"),
    ({"layer_replication": [[0, 1], [0, 2]]}, "'layer_replication'"),
    ({"init_lora_weights": "pissa"}, "'init_lora_weights' is 'pissa'"),
    ({"lora_alpha": 0}, "'lora_alpha'"),
    ({"use_rslora": True, "rank_pattern": {"q_proj": 2}}, "'rank_pattern'"),
])
def test_settings_that_change_the_adapter_are_refused_by_name(change, reason, tmp_path):
    shutil.copytree(DATA / "peft_llama3", tmp_path / "peft")
    config = tmp_path / "peft/adapter_config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), **change}))
    done = convert(tmp_path / "peft", tmp_path / "out.gguf")
    assert done.returncode != 0 and reason in done.stderr and not (tmp_path / "out.gguf").exists()


def damaged(tmp_path, edit):
    """The adapter with its header edited."""
    shutil.copytree(DATA / "peft_llama3", tmp_path / "peft")
    path = tmp_path / "peft/adapter_model.safetensors"
    data = path.read_bytes()
    n, = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + n])
    text = edit(header) or json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data[8 + n:])
    return convert(tmp_path / "peft", tmp_path / "out.gguf")


Q = "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight"


@pytest.mark.parametrize("edit, reason", [
    (lambda h: h.update({"base_model.model.lm_head.lora_A.weight": h.pop(Q)}), "lm_head"),
    (lambda h: h[Q].update(dtype="F8_E4M3", shape=[8, 64]), "type F8_E4M3"),
    (lambda h: h[Q].update(dtype="Q9"), "type 'Q9' is not known"),
    (lambda h: h[Q].update(shape=[4, 63]), "512 bytes of data"),
    (lambda h: h[Q].update(shape=[2 ** 62, 2 ** 62]), "its shape"),
    (lambda h: h[Q].update(data_offsets=[0, 2 ** 40]), "do not lie in the file"),
    (lambda h: h[Q].update(data_offsets=[-4, 508]), "do not lie in the file"),
    (lambda h: h.pop(Q) and None, "a hole or an overlap"),
    (lambda h: b"{" * 100000, "the header is no JSON object"),
    (lambda h: b'{"a":{},"a":{}}', "the header is no JSON object"),
])
def test_damaged_tensors_are_refused_by_name(edit, reason, tmp_path):
    done = damaged(tmp_path, edit)
    assert done.returncode != 0 and reason in done.stderr, done.stderr
    assert not (tmp_path / "out.gguf").exists()


def test_another_base_model_is_refused(tmp_path):
    out = tmp_path / "adapter.gguf"
    assert "but the base model's 'blk.0" in convert(DATA / "peft_llama3", out, "-m", model_of("gemma3")).stderr
    assert convert(DATA / "peft_qwen3", out, "-m", model_of("qwen3")).returncode == 0
    run = subprocess.run([MILLRACE, "perplexity", "-m", model_of("llama3"), "-f", "/dev/null", "--lora", out],
                         capture_output=True, text=True)
    assert run.returncode != 0


def test_run_and_perplexity_take_adapters(tmp_path):
    model, out = model_of("smollm2"), tmp_path / "adapter.gguf"
    assert convert(DATA / "peft_smollm2", out, "-m", model).returncode == 0
    answers = {}
    for options in ((), ("--lora", out), ("--lora-scaled", f"{out}:1"), ("--lora-scaled", f"{out}:0"),
                    ("--lora-scaled", f"{out}:3")):
        done = subprocess.run([MILLRACE, "run", "-m", model, "-p", "The mill", "--raw", "-n", "12", "--temp", "0", "--json",
                               *options], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        answers[options] = json.loads(done.stdout)["tokens"]
    plain, one, scaled, zero, three = answers.values()
    assert plain == zero and one == scaled and len({tuple(plain), tuple(one), tuple(three)}) > 1
    for bad in (f"{out}", f"{out}:", f"{out}:101", f"{out}:nan", f"{out}:x"):
        done = subprocess.run([MILLRACE, "run", "-m", model, "-p", "x", "--lora-scaled", bad], capture_output=True, text=True)
        assert done.returncode == 2 and "--lora-scaled" in done.stderr
    text = tmp_path / "text"
    text.write_text("The mill stands where the river bends. " * 3)
    figure = [json.loads(subprocess.run([MILLRACE, "perplexity", "-m", model, "-f", text, "--json", *options],
                                        capture_output=True, check=True).stdout)["perplexity"]
              for options in ((), ("--lora", out))]
    assert figure[0] != figure[1]
