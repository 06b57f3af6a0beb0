"""`millrace quantize`: small random models in and out, read back with the package gguf."""
import json
import re
import resource
import struct
import subprocess

import numpy as np
import pytest
from gguf import GGUFReader, GGUFWriter
from gguf.quants import dequantize
from program import MILLRACE, SMOLLM2, needs_smollm2, run

RNG = np.random.default_rng(1)
SHAPES = {"token_embd.weight": (64, 256), "blk.0.attn_v.weight": (64, 256), "blk.0.attn_q.weight": (96, 256),
          "blk.0.ffn_down.weight": (32, 288), "blk.0.ffn_up.weight": (7, 33), "blk.0.attn_norm.weight": (256,),
          "blk.0.ffn_gate_inp.weight": (4, 256), "blk.0.ffn_up_exps.weight": (3, 16, 256)}


def write(path, tensors):
    w = GGUFWriter(str(path), "llama")
    w.add_block_count(8)
    w.add_file_type(0)
    for name, values in tensors.items():
        w.add_tensor(name, values)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


@pytest.fixture
def model(tmp_path):
    tensors = {name: (RNG.standard_normal(shape) * 0.02).astype(np.float32) for name, shape in SHAPES.items()}
    write(tmp_path / "in.gguf", tensors)
    return tmp_path / "in.gguf", tensors


def read(path):
    reader = GGUFReader(str(path))
    return {t.name: (t.tensor_type.name.lower(), dequantize(t.data, t.tensor_type)) for t in reader.tensors}, reader


def quantize(model, *args):
    out = model.parent / "out.gguf"
    r = run("quantize", model, out, "--json", *args)
    assert r.returncode == 0, r.stderr
    return out, json.loads(r.stdout)


def test_a_mix_with_what_fits(model):
    path, tensors = model
    out, report = quantize(path, "--type", "q4_k_m")
    got, reader = read(out)
    types = {name: t for name, (t, _) in got.items()}
    assert types == {"token_embd.weight": "q6_k", "blk.0.attn_v.weight": "q6_k", "blk.0.attn_q.weight": "q4_k",
                     "blk.0.ffn_down.weight": "q8_0", "blk.0.ffn_up.weight": "f16", "blk.0.attn_norm.weight": "f32",
                     "blk.0.ffn_gate_inp.weight": "f32", "blk.0.ffn_up_exps.weight": "q4_k"}
    assert reader.fields["general.file_type"].contents() == 15
    assert report["n_unfit"] == 2 and report["n_quantized"] == 6
    for entry in report["tensors"]:
        want, have = tensors[entry["name"]], got[entry["name"]][1]
        error = np.sqrt(((want - have.reshape(want.shape)) ** 2).sum() / (want ** 2).sum())
        assert entry["error"] == pytest.approx(error, rel=1e-3, abs=1e-6) and error < 0.1


def test_threads_change_no_byte(model):
    one, _ = quantize(model[0], "-t", 1)
    first = one.read_bytes()
    assert quantize(model[0], "-t", 3)[0].read_bytes() == first


def test_every_type_from_every_source(model):
    path, _ = model
    for source in ("f16", "bf16", "q8_0"):
        out, _ = quantize(path, "--type", source)
        middle = out.rename(path.parent / f"{source}.gguf")
        for t in ("q2_k", "q3_k_m", "q4_0", "q4_1", "q5_0", "q5_1", "q6_k", "iq4_nl", "f32"):
            assert read(quantize(middle, "--type", t)[0])[0]["blk.0.attn_q.weight"][0] == t.removesuffix("_m")


def test_rules_come_first(model):
    out, _ = quantize(model[0], "--type", "q4_0", "--tensor", "attn_[qv]=q5_1", "--tensor", "attn=q8_0",
                      "--token-embedding-type", "q4_0", "--output-type", "q8_0")
    got, _ = read(out)
    assert got["blk.0.attn_q.weight"][0] == "q5_1" and got["token_embd.weight"][0] == "q8_0"
    assert got["blk.0.ffn_up_exps.weight"][0] == "q4_0"
    out, _ = quantize(model[0], "--type", "q4_0", "--pure")
    assert read(out)[0]["token_embd.weight"][0] == "q4_0"


def dat(path, entries):
    data = struct.pack("<i", len(entries))
    for name, values in entries.items():
        data += struct.pack("<i", len(name)) + name.encode() + struct.pack("<ii", 4, len(values))
        data += (4 * values).astype("<f4").tobytes()
    path.write_bytes(data)


def weighted_error(model, out, importance):
    got, _ = read(out)
    name = "blk.0.attn_q.weight"
    return (importance * (model[1][name] - got[name][1]) ** 2).sum()


def test_statistics_make_errors_count_where_they_matter(model):
    path, _ = model
    importance = RNG.lognormal(0, 2, 256).astype(np.float32)
    dat(path.parent / "m.dat", {"blk.0.attn_q.weight": importance})
    write(path.parent / "m.gguf", {"blk.0.attn_q.weight.in_sum2": (importance * 8).reshape(1, 256),
                                   "blk.0.attn_q.weight.counts": np.full((1, 1), 8, np.float32)})
    without = weighted_error(model, quantize(path)[0], importance)
    out, report = quantize(path, "--imatrix", path.parent / "m.dat")
    of_dat = out.read_bytes()
    assert report["n_importance"] == 1 and weighted_error(model, out, importance) < 0.8 * without
    out, _ = quantize(path, "--imatrix", path.parent / "m.gguf")
    assert out.read_bytes() == of_dat


def test_bad_input_leaves_nothing_behind(model, tmp_path):
    path, tensors = model
    bad = dict(tensors)
    bad["blk.0.attn_q.weight"] = tensors["blk.0.attn_q.weight"].copy()
    bad["blk.0.attn_q.weight"][5, 7] = np.nan
    write(tmp_path / "nan.gguf", bad)
    bad["blk.0.attn_q.weight"][5, 7] = 1e30
    write(tmp_path / "big.gguf", bad)
    few, _ = quantize(path, "--type", "q4_0")
    few = few.rename(tmp_path / "few.gguf")
    (tmp_path / "cut.dat").write_bytes(struct.pack("<iii", 1, 3, 0))
    dat(tmp_path / "negative.dat", {"blk.0.attn_q.weight": np.full(256, -1, np.float32)})
    dat(tmp_path / "other.dat", {"blk.0.attn_q.weight": np.ones(100, np.float32)})
    before = sorted(p.name for p in tmp_path.iterdir())
    out = tmp_path / "out.gguf"
    for source, args, status, word in ((tmp_path / "nan.gguf", [], 1, "row 5"), (tmp_path / "big.gguf", ["--type", "f16"], 1, "f16"),
                                       (few, [], 1, "q4_0 already"), (path, ["--type", "q9"], 2, "q4_k_m"),
                                       (path, ["--tensor", "x"], 2, "REGEX=TYPE"), (path, ["--tensor", "x=q9"], 2, "q9"),
                                       (path, ["--tensor", "(=q8_0"], 1, "rule '('"),
                                       (path, ["--imatrix", tmp_path / "cut.dat"], 1, "cut.dat"),
                                       (path, ["--imatrix", tmp_path / "negative.dat"], 1, "attn_q"),
                                       (path, ["--imatrix", tmp_path / "other.dat"], 1, "statistics are of another model"),
                                       (path, ["--imatrix", path], 1, "no importance matrix")):
        r = run("quantize", source, out, *args)
        assert r.returncode == status and word in r.stderr and r.stderr.count("\n") <= 3, r.stderr
        assert sorted(p.name for p in tmp_path.iterdir()) == before
    assert run("quantize", path, path).returncode == 2
    assert read(quantize(few, "--requantize", "--type", "f32")[0])[0]["blk.0.attn_q.weight"][0] == "f32"


def test_a_full_disk_is_told_and_nothing_is_left(model, tmp_path):
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000))
    r = subprocess.run([MILLRACE, "quantize", str(model[0]), str(tmp_path / "out.gguf")], capture_output=True, text=True,
                       preexec_fn=lambda: (limit(), __import__("signal").signal(25, 1)))
    assert r.returncode == 1 and re.search("too large|cannot write", r.stderr), r.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["in.gguf"]


@needs_smollm2
def test_statistics_of_a_model_lead_its_quantisation(tmp_path):
    text, statistics, out = tmp_path / "text.txt", tmp_path / "s.gguf", tmp_path / "out.gguf"
    text.write_text("short")
    r = run("calibrate", "-m", SMOLLM2, "-f", text, statistics)
    assert r.returncode == 1 and "too few" in r.stderr and not statistics.exists()
    text.write_text("The mill stands where the river is narrow. Its wheel turns day and night. " * 20)
    r = run("calibrate", "-m", SMOLLM2, "-f", text, statistics, "--json")
    assert r.returncode == 0 and json.loads(r.stdout)["n_matrices"] == 30 * 7 + 1, r.stderr
    r = run("quantize", SMOLLM2, out, "--type", "q3_k_s", "--requantize", "--imatrix", statistics, "--json")
    assert r.returncode == 0 and json.loads(r.stdout)["n_importance"] == 30 * 7, r.stderr
    assert run("perplexity", "-m", out, "-f", text).returncode == 0
