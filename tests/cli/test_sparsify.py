"""`millrace sparsify`: half of the weights go, the file runs, and a file with the zeros in it computes the same bits."""
import json
import re
import resource
import signal
import subprocess

import byte_tokenizer
import pytest
from program import MILLRACE, run

SHAPE = ["--layers", 2, "--width", 96, "--heads", 6, "--kv-heads", 2, "--channels", 224, "--context", 256, "--type", "bf16"]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sparsify")
    tokenizer = byte_tokenizer.write(folder / "tokenizer.gguf")
    r = run("init", "--tokenizer", tokenizer, "-o", folder / "model.gguf", *SHAPE)
    assert r.returncode == 0, r.stderr
    (folder / "text.txt").write_text("The mill stands where the river bends. " * 30)
    r = run("calibrate", "-m", folder / "model.gguf", "-f", folder / "text.txt", folder / "statistics.gguf")
    assert r.returncode == 0, r.stderr
    return folder


def sparsify(files, out, *more, method="magnitude"):
    text = [] if method == "magnitude" else ["--calibrate", files / "text.txt"]
    r = run("sparsify", files / "model.gguf", out, "--method", method, *text, *more)
    assert r.returncode == 0, r.stderr
    return r


def perplexity(files, model, *more):
    r = run("perplexity", "-m", model, "-f", files / "text.txt", "-c", 64, "--json", *more)
    assert r.returncode == 0, r.stderr
    return json.loads(r.stdout)["perplexity"]


@pytest.mark.parametrize("value", ["bf16", "q8_0", "q4_0"])
@pytest.mark.parametrize("pattern", ["2:4", "4:8"])
def test_the_result_is_smaller_and_computes_what_its_zeros_would(files, tmp_path, pattern, value):
    sparse, dense = tmp_path / "sparse.gguf", tmp_path / "dense.gguf"
    report = json.loads(sparsify(files, sparse, "--pattern", pattern, "--type", value, "--json").stdout)
    zeros = json.loads(sparsify(files, dense, "--pattern", pattern, "--type", value, "--store", "dense", "--json").stdout)
    assert report["n_sparse"] == 2 * 7 and report["n_unfit"] == 0 and zeros["n_sparse"] == 2 * 7
    bits = {"bf16": 36 * 8 / 32, "q8_0": 22 * 8 / 32, "q4_0": 14 * 8 / 32}[value]
    for t, z in zip(report["tensors"], zeros["tensors"]):
        if t["sparse"]:
            assert t["type"] == f"{value}_{pattern.replace(':', 'of')}" and z["type"] == value and 0.1 < t["error"] < 0.6
            assert t["bytes"] / z["bytes"] == pytest.approx(bits / {"bf16": 16, "q8_0": 8.5, "q4_0": 4.5}[value])
    if value != "q4_0":  # whose scales are fitted to what stays, without the zeros
        for precision in ("fp32", "auto"):
            if (value, precision) != ("bf16", "auto"):  # CPUs with products of bf16 round activations for dense weights
                assert perplexity(files, sparse, "--precision", precision) == perplexity(files, dense, "--precision", precision)
    assert perplexity(files, sparse) == pytest.approx(perplexity(files, dense), rel=0.01)
    types = json.loads(run("inspect", sparse, "--json").stdout)["tensors"]
    assert sum(t["type"] == f"{value}_{pattern.replace(':', 'of')}" for t in types) == 2 * 7


@pytest.mark.parametrize("method", ["magnitude", "wanda", "sparsegpt"])
def test_threads_and_memory_change_no_byte(files, tmp_path, method):
    out = [tmp_path / "one.gguf", tmp_path / "three.gguf"]
    sparsify(files, out[0], "-t", 1, method=method)
    sparsify(files, out[1], "-t", 3, *(["--memory", 1] if method == "sparsegpt" else []), method=method)
    assert out[0].read_bytes() == out[1].read_bytes()


def test_statistics_may_come_from_a_file(files, tmp_path):
    sparsify(files, tmp_path / "text.gguf", method="wanda")
    r = run("sparsify", files / "model.gguf", tmp_path / "file.gguf", "--imatrix", files / "statistics.gguf")
    assert r.returncode == 0, r.stderr
    assert (tmp_path / "text.gguf").read_bytes() == (tmp_path / "file.gguf").read_bytes()


def test_chunks_and_threads_change_no_token(files, tmp_path):
    for value in ("bf16", "q8_0", "q4_0"):
        out = tmp_path / f"{value}.gguf"
        sparsify(files, out, "--type", value)
        answers = [run("run", "-m", out, "-p", "The mill stands where the river", "-n", 24, "--raw", "--temp", 0, "--json", "-t", threads,
                       "--prompt-chunk", chunk).stdout for threads, chunk in ((1, 1), (2, 5), (2, 64))]
        tokens = [json.loads(a)["tokens"] for a in answers]
        assert len(tokens[0]) > 0 and tokens[0] == tokens[1] == tokens[2]


def test_any_share_is_stored_with_its_zeros(files, tmp_path):
    for method in ("magnitude", "wanda", "sparsegpt"):
        report = sparsify(files, tmp_path / "out.gguf", "--pattern", "unstructured", "--ratio", 0.3, "--store", "dense", "--json",
                          method=method)
        tensors = json.loads(report.stdout)["tensors"]
        assert all(0.02 < t["error"] < 2 for t in tensors if t["sparse"])
        assert 100 < perplexity(files, tmp_path / "out.gguf") < 600


def test_bad_input_leaves_nothing_behind(files, tmp_path):
    (tmp_path / "short.txt").write_text("Too short.")
    data = bytearray((files / "model.gguf").read_bytes())
    tensors = json.loads(run("inspect", files / "model.gguf", "--json").stdout)["tensors"]
    at = next(t["offset"] for t in tensors if t["name"] == "blk.1.ffn_down.weight")
    data[at:at + 2] = b"\xff\x7f"
    (tmp_path / "nan.gguf").write_bytes(data)
    sparsify(files, tmp_path / "sparse.gguf")
    before = sorted(p.name for p in tmp_path.iterdir())
    model, out = files / "model.gguf", tmp_path / "out.gguf"
    magnitude = ["--method", "magnitude"]
    for source, args, status, word in (
            (model, [], 2, "--calibrate"), (model, ["--method", "sparsegpt", "--imatrix", files / "statistics.gguf"], 2, "--calibrate"),
            (model, ["--calibrate", tmp_path / "short.txt"], 1, "too few"),
            (model, ["--calibrate", tmp_path / "short.txt", "--method", "sparsegpt"], 1, "too few"),
            (model, ["--calibrate", tmp_path / "none.txt"], 1, "none.txt"),
            (model, [*magnitude, "--ratio", 1.5], 2, "--ratio"), (model, [*magnitude, "--ratio", 0.3], 2, "0.5"),
            (model, [*magnitude, "--pattern", "1:4"], 2, "--pattern"),
            (model, [*magnitude, "--pattern", "unstructured"], 2, "--store dense"),
            (model, [*magnitude, "--type", "q6_k"], 2, "q6_k"), (model, ["--imatrix", model], 1, "no importance matrix"),
            (tmp_path / "nan.gguf", magnitude, 1, "NaN"), (tmp_path / "sparse.gguf", magnitude, 1, "already"),
            (files / "tokenizer.gguf", magnitude, 1, "nothing to sparsify")):
        r = run("sparsify", source, out, *args)
        assert r.returncode == status and word in r.stderr and r.stderr.count("\n") <= 3, r.stderr
        assert sorted(p.name for p in tmp_path.iterdir()) == before
    assert run("sparsify", model, model, *magnitude).returncode == 2


def test_a_full_disk_is_told_and_nothing_is_left(files, tmp_path):
    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000))
    r = subprocess.run([MILLRACE, "sparsify", files / "model.gguf", tmp_path / "out.gguf", "--method", "magnitude"],
                       capture_output=True, text=True, preexec_fn=limit)
    assert r.returncode == 1 and re.search("too large|cannot write", r.stderr), r.stderr
    assert not list(tmp_path.iterdir())


def test_a_damaged_map_is_refused(files, tmp_path):
    out = tmp_path / "out.gguf"
    sparsify(files, out, "--type", "q8_0")
    data = bytearray(out.read_bytes())
    at = max(t["offset"] for t in json.loads(run("inspect", out, "--json").stdout)["tensors"] if t["type"] == "q8_0_2of4")
    data[at + 2] ^= 1
    out.write_bytes(data)
    r = run("perplexity", "-m", out, "-f", files / "text.txt")
    assert r.returncode == 1 and "stores more or fewer" in r.stderr, r.stderr
