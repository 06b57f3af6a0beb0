"""`millrace init` and `millrace distill`."""
import hashlib
import json
import signal
import subprocess
import time
from pathlib import Path

import byte_tokenizer
import gguf
import pytest
from program import MILLRACE, run

SHAPE = ["--layers", 2, "--width", 32, "--heads", 4, "--kv-heads", 2, "--channels", 64, "--context", 256]
TRAIN = ["--tokens", 32, "--batch", 2, "--accumulate", 2, "--steps", 60, "--warmup", 5, "--rate", "3e-3", "--held-out", 4,
         "--measure-every", 30, "--top-k", 16, "--type", "f32", "-t", 1]


@pytest.fixture(scope="module")
def lesson(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lesson")
    tokenizer = byte_tokenizer.write(folder / "tokenizer.gguf")
    for name, more in (("student", ["--seed", 1]), ("teacher", ["--seed", 2, "--layers", 3, "--type", "f16"])):
        r = run("init", "--tokenizer", tokenizer, "-o", folder / f"{name}.gguf", *SHAPE, *more)
        assert r.returncode == 0, r.stderr
    words = ("the mill stands where the river bends", "in spring the water is high", "the miller mends sacks")
    (folder / "text.txt").write_text(". ".join(words[i * i % 3] + f" and {i % 7}" for i in range(400)))
    return folder


def arguments(lesson, out, *more, student="student"):
    return ["distill", "-m", lesson / f"{student}.gguf", "--teacher", lesson / "teacher.gguf", "-f", lesson / "text.txt", "-o", out,
            *TRAIN, *more]


def test_a_new_model_runs(lesson):
    r = run("perplexity", "-m", lesson / "teacher.gguf", "-f", lesson / "text.txt", "-c", 64, "--json")
    assert r.returncode == 0 and 200 < json.loads(r.stdout)["perplexity"] < 400, r.stderr
    r = run("inspect", lesson / "student.gguf", "--json")
    assert r.returncode == 0 and json.loads(r.stdout), r.stderr


def test_a_trained_model_knows_its_text_better(lesson, tmp_path):
    out = tmp_path / "out.gguf"
    r = run(*arguments(lesson, out, "--ce", 1, "--kl", 0, "--json", "--steps", 200, "--type", "bf16"))
    assert r.returncode == 0, r.stderr
    curve = json.loads(r.stdout)["curve"]
    assert curve[-1]["step"] == 200 and curve[-1]["tokens"] == 200 * 4 * 32
    assert curve[-1]["cross_entropy"] < curve[0]["cross_entropy"] * 0.8
    assert curve[-1]["held_out"]["cross_entropy"] < curve[0]["cross_entropy"] * 0.8
    assert all(p["tokens_per_s"] > 0 and 0 < p["mfu"] < 2 for p in curve) and "MFU" in r.stderr

    def perplexity(model):
        r = run("perplexity", "-m", model, "-f", lesson / "text.txt", "--json", "--precision", "fp32", "-c", 64)
        assert r.returncode == 0, r.stderr
        return json.loads(r.stdout)["perplexity"]
    assert perplexity(out) < perplexity(lesson / "student.gguf") * 0.5


def test_a_run_that_is_killed_ends_with_the_same_bytes(lesson, tmp_path):
    whole, pieces = tmp_path / "whole.gguf", tmp_path / "pieces.gguf"
    r = run(*arguments(lesson, whole))
    assert r.returncode == 0, r.stderr
    command = [MILLRACE, *map(str, arguments(lesson, pieces, "--checkpoint", tmp_path / "run.ckpt", "--checkpoint-every", 3,
                                             "--teacher-cache", tmp_path / "teacher.cache", "--report-every", 1))]
    for kills in range(3):
        p = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        for line in p.stderr:       # a few steps, then the end that no program can see coming
            if line.startswith("step") and int(line.split()[1]) >= 9 * (kills + 1):
                break
        p.send_signal(signal.SIGKILL)
        p.communicate()
        assert not pieces.exists()
    r = subprocess.run([*command, "--json"], capture_output=True, text=True)
    assert r.returncode == 0, r.stderr
    assert json.loads(r.stdout)["resumed_at_step"] > 0
    assert pieces.read_bytes() == whole.read_bytes()


def heads_arguments(lesson, out, *more):
    train = list(TRAIN)
    del train[train.index("--top-k"):train.index("--top-k") + 2]
    return ["distill", "-m", lesson / "teacher.gguf", "-f", lesson / "text.txt", "-o", out, *train, "--heads", "medusa", *more]


def test_heads_for_speculation(lesson, tmp_path):
    out = tmp_path / "heads.gguf"
    # the base is random, its output matrix small: a head has far to go
    r = run(*heads_arguments(lesson, out, "--heads-count", 2, "--steps", 150, "--rate", "2e-2", "--type", "f16", "--json"))
    assert r.returncode == 0, r.stderr
    curve = json.loads(r.stdout)["curve"]
    assert curve[-1]["loss"] < curve[0]["loss"] * 0.95
    assert len(curve[-1]["held_out"]["accuracy_of_heads"]) == 2 and "each head" in r.stderr
    heads, base = gguf.GGUFReader(out), gguf.GGUFReader(lesson / "teacher.gguf")
    keys = {name: heads.fields[name].contents() for name in heads.fields if name.startswith(("general.", "draft-heads."))}
    norm = next(t for t in base.tensors if t.name == "output_norm.weight").data
    assert keys["draft-heads.output_norm_sha256"] == hashlib.sha256(norm.astype("<f4").tobytes()).hexdigest()
    assert keys["general.architecture"] == "draft-heads" and keys["draft-heads.kind"] == "medusa"
    assert (keys["draft-heads.count"], keys["draft-heads.embedding_length"], keys["draft-heads.block_count"]) == (2, 32, 3)
    assert keys["draft-heads.vocab_size"] == len(base.fields["tokenizer.ggml.tokens"].contents())
    assert [(t.name, list(t.shape), t.tensor_type.name) for t in heads.tensors] == [
        ("medusa.0.weight", [32, 32], "F16"), ("medusa.0.bias", [32], "F32"),
        ("medusa.1.weight", [32, 32], "F16"), ("medusa.1.bias", [32], "F32")]


def test_a_head_in_the_style_of_eagle(lesson, tmp_path):
    out = tmp_path / "heads.gguf"
    r = run(*heads_arguments(lesson, out, "--heads", "eagle", "--steps", 150, "--rate", "1e-2", "--type", "f16", "--json"))
    assert r.returncode == 0, r.stderr
    curve = json.loads(r.stdout)["curve"]
    assert curve[-1]["loss"] < curve[0]["loss"] * 0.95 and len(curve[-1]["held_out"]["accuracy_of_heads"]) == 1
    heads = gguf.GGUFReader(out)
    assert heads.fields["draft-heads.kind"].contents() == "eagle" and heads.fields["draft-heads.count"].contents() == 1
    tensors = {t.name: (list(t.shape), t.tensor_type.name) for t in heads.tensors}
    base = {t.name: list(t.shape) for t in gguf.GGUFReader(lesson / "teacher.gguf").tensors if t.name.startswith("blk.0.")}
    assert tensors.pop("eagle.fc.weight") == ([64, 32], "F16") and tensors.pop("eagle.fc.bias") == ([32], "F32")
    assert {name: shape for name, (shape, _) in tensors.items()} == {f"eagle.{name}": shape for name, shape in base.items()}


def test_heads_that_do_not_fit_are_refused(lesson, tmp_path):
    out = tmp_path / "heads.gguf"
    for more, word in ((["--teacher", lesson / "teacher.gguf"], "learn from the model itself"), (["--tokens", 4], "too short"),
                       (["--hidden", 1], "no hidden states")):
        r = run(*heads_arguments(lesson, out, *more))
        assert r.returncode == 1 and word in r.stderr and not out.exists(), r.stderr


def test_bf16_learns_as_fp32(lesson, tmp_path):
    last = []
    for precision in ("fp32", "bf16"):
        out = tmp_path / f"{precision}.gguf"
        r = run(*arguments(lesson, out, "--ce", 1, "--kl", 0, "--json", "--precision", precision))
        assert r.returncode == 0, r.stderr
        last.append(json.loads(r.stdout)["curve"][-1]["held_out"]["cross_entropy"])
    assert last[0] != last[1] and abs(last[0] - last[1]) < 0.02 * last[0]
    r = run(*heads_arguments(lesson, tmp_path / "none.gguf", "--precision", "bf16"))
    assert r.returncode == 1 and "trained in fp32" in r.stderr


def lora_arguments(lesson, out, *more):
    return ["distill", "-m", lesson / "student.gguf", "-f", lesson / "text.txt", "-o", out, *TRAIN, "--rate", "2e-2", "--lora", 4, *more]


def merged(base, adapter, out):
    """base with W + alpha / rank B A in the place of W, by the package that users know."""
    b, a = gguf.GGUFReader(base), gguf.GGUFReader(adapter)
    parts = {t.name: t.data for t in a.tensors}
    alpha = float(a.fields["adapter.lora.alpha"].contents())
    keys = {name: a.fields[name].contents() for name in ("general.type", "adapter.type", "general.architecture")}
    assert keys == {"general.type": "adapter", "adapter.type": "lora", "general.architecture": "llama"}
    data = bytearray(Path(base).read_bytes())
    for t in b.tensors:
        if f"{t.name}.lora_a" in parts:
            low, high = parts.pop(f"{t.name}.lora_a"), parts.pop(f"{t.name}.lora_b")
            w = t.data + (alpha / low.shape[0] * (high @ low)).astype("<f4")
            data[t.data_offset:t.data_offset + t.n_bytes] = w.tobytes()
    assert not parts
    out.write_bytes(data)


def test_an_adapter_is_trained_and_loaded(lesson, tmp_path):
    base, out, whole = tmp_path / "base.gguf", tmp_path / "adapter.gguf", tmp_path / "whole.gguf"
    r = run("init", "--tokenizer", lesson / "tokenizer.gguf", "-o", base, *SHAPE, "--seed", 1, "--type", "f32")
    assert r.returncode == 0, r.stderr
    r = run(*lora_arguments(lesson, out, "-m", base, "--lora-alpha", 6, "--steps", 120, "--json"))
    assert r.returncode == 0, r.stderr
    curve = json.loads(r.stdout)["curve"]
    # the base is random, its output matrix small: no adapter can say much
    assert curve[-1]["held_out"]["cross_entropy"] < curve[0]["cross_entropy"] * 0.98
    names = {t.name for t in gguf.GGUFReader(out).tensors}
    assert len(names) == 2 * 2 * 7 and "blk.1.ffn_down.weight.lora_b" in names
    merged(base, out, whole)
    say = ["--raw", "--precision", "fp32", "-p", "the mill stands", "-n", 24, "--temp", 0, "-t", 1]
    texts = [run("run", "-m", m, *say, *more) for m, more in ((base, ["--lora", out]), (whole, []), (base, []))]
    assert all(t.returncode == 0 for t in texts), texts
    assert texts[0].stdout == texts[1].stdout != texts[2].stdout


def test_an_adapter_on_some_products(lesson, tmp_path):
    out = tmp_path / "adapter.gguf"
    r = run(*lora_arguments(lesson, out, "--lora-targets", "q_proj,v", "--steps", 2, "--type", "f16"))
    assert r.returncode == 0, r.stderr
    tensors = gguf.GGUFReader(out).tensors
    assert [(t.name, list(t.shape), t.tensor_type.name) for t in tensors][:4] == [
        ("blk.0.attn_q.weight.lora_a", [32, 4], "F16"), ("blk.0.attn_q.weight.lora_b", [4, 32], "F16"),
        ("blk.0.attn_v.weight.lora_a", [32, 4], "F16"), ("blk.0.attn_v.weight.lora_b", [4, 16], "F16")]
    assert len(tensors) == 8 and gguf.GGUFReader(out).fields["adapter.lora.alpha"].contents() == 8
    for more, word in ((["--lora-targets", "q,norm"], "'norm'"), (["--heads", "medusa"], "not trained together")):
        r = run(*lora_arguments(lesson, tmp_path / "none.gguf", *more))
        assert r.returncode == 1 and word in r.stderr and not (tmp_path / "none.gguf").exists(), r.stderr
    r = run(*arguments(lesson, out, "--lora-alpha", 3))
    assert r.returncode == 2 and "go with --lora" in r.stderr


def test_an_interrupted_run_keeps_its_state(lesson, tmp_path):
    out, checkpoint = tmp_path / "out.gguf", tmp_path / "run.ckpt"
    p = subprocess.Popen([MILLRACE, *map(str, arguments(lesson, out, "--checkpoint", checkpoint, "--steps", 100000,
                                                         "--report-every", 1))], stderr=subprocess.PIPE, text=True)
    assert p.stderr.readline().startswith("step 1 ")
    p.send_signal(signal.SIGINT)
    _, err = p.communicate()
    assert p.returncode == 130 and "stopped after step" in err
    assert checkpoint.exists() and not out.exists() and not list(tmp_path.glob("*partial*"))


def test_what_does_not_fit_is_refused_before_work(lesson, tmp_path):
    other = byte_tokenizer.write(tmp_path / "other.gguf", more=["<|one_more|>"])
    assert run("init", "--tokenizer", other, "-o", tmp_path / "other_model.gguf", *SHAPE).returncode == 0
    out = tmp_path / "out.gguf"
    for more, word in ((["--teacher", tmp_path / "other_model.gguf"], "vocabulary"), (["--tokens", 512], "context"),
                       (["--held-out", 4000], "held out"), (["--ce", 0, "--kl", 0], "losses"),
                       (["--checkpoint", tmp_path / "nowhere/run.ckpt"], "nowhere")):
        r = run(*arguments(lesson, out, *more))
        assert r.returncode == 1 and word in r.stderr and not out.exists(), r.stderr
    for shape, word in ((["--heads", 3], "divide"), (["--width", 33, "--heads", 4], "divide")):
        r = run("init", "--tokenizer", lesson / "tokenizer.gguf", "-o", out, *SHAPE, *shape)
        assert r.returncode == 1 and word in r.stderr and not out.exists(), r.stderr


def test_an_output_that_cannot_be_written_is_told_first(lesson, tmp_path):
    r = run(*arguments(lesson, tmp_path / "nowhere/out.gguf", "--steps", 10 ** 9))
    assert r.returncode == 1 and "out.gguf" in r.stderr
