"""`millrace prune`: the result is a file that runs, of the size that was asked for."""
import json
import re
import resource
import signal
import subprocess

import byte_tokenizer
import pytest
from program import MILLRACE, run

SHAPE = ["--layers", 4, "--width", 64, "--heads", 8, "--kv-heads", 4, "--channels", 256, "--context", 256]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("prune")
    tokenizer = byte_tokenizer.write(folder / "tokenizer.gguf")
    r = run("init", "--tokenizer", tokenizer, "-o", folder / "model.gguf", *SHAPE)
    assert r.returncode == 0, r.stderr
    (folder / "text.txt").write_text("The mill stands where the river bends. " * 60)
    return folder


def prune(files, out, *more):
    return run("prune", files / "model.gguf", out, "-f", files / "text.txt", "--tokens", 64, "--windows", 4, "-t", 1, *more)


@pytest.mark.parametrize("how", ["taylor", "activation", "weight", "removal"])
@pytest.mark.parametrize("parts", ["channels", "heads", "width", "layers", "heads,channels,width,layers"])
def test_the_result_runs_and_has_the_size(files, tmp_path, parts, how):
    out = tmp_path / "out.gguf"
    r = prune(files, out, "--ratio", 0.1, "--parts", parts, "--importance", how, "--json")
    assert r.returncode == 0, r.stderr
    shape = json.loads(r.stdout)
    assert shape["after"]["weights"] <= 0.9 * shape["before"]["weights"]
    assert shape["after"]["channels"] % 32 == 0 and shape["after"]["width"] % 32 == 0
    r = run("perplexity", "-m", out, "-f", files / "text.txt", "-c", 64, "--json")
    assert r.returncode == 0 and 100 < json.loads(r.stdout)["perplexity"] < 600, r.stderr


def test_targets(files, tmp_path):
    out = tmp_path / "out.gguf"
    for more, check in ((["--params", "0.2M"], lambda a: a["weights"] <= 200000),
                        (["--threshold", 0.5, "--parts", "heads,channels"], lambda a: a["channels"] <= 256),
                        (["--kv-heads", 2], lambda a: a["kv_heads"] == 2 and a["channels"] == 256)):
        r = prune(files, out, *more, "--json")
        assert r.returncode == 0 and check(json.loads(r.stdout)["after"]), r.stdout + r.stderr


@pytest.mark.parametrize("how", ["taylor", "removal"])
def test_global_meets_the_target_too(files, tmp_path, how):
    out = tmp_path / "out.gguf"
    r = prune(files, out, "--ratio", 0.15, "--parts", "heads,channels,layers", "--importance", how, "--global", "--json")
    assert r.returncode == 0, r.stderr
    shape = json.loads(r.stdout)
    assert shape["after"]["weights"] <= 0.85 * shape["before"]["weights"]
    assert run("perplexity", "-m", out, "-f", files / "text.txt", "-c", 64).returncode == 0
    for more in (["--importance", "weight", "--ratio", 0.1], ["--threshold", 0.5], ["--latency", "0.9x"]):
        r = prune(files, out, "--global", *more)
        assert r.returncode == 2 and "--global" in r.stderr


def test_a_target_in_time(files, tmp_path):
    """No times are asserted: what was measured keeps the target by its own measurement, or the target is refused."""
    out = tmp_path / "out.gguf"
    r = prune(files, out, "--latency", "0.95x", "--parts", "heads,channels,layers", "--importance", "weight", "--json")
    assert r.returncode in (0, 1), r.stderr
    if r.returncode == 0:
        shape = json.loads(r.stdout)
        assert shape["latency"] <= 0.95 and shape["after"]["weights"] < shape["before"]["weights"]
    else:
        assert "times as long" in r.stderr
    assert [p.name for p in tmp_path.iterdir()] == (["out.gguf"] if r.returncode == 0 else [])
    r = prune(files, out, "--latency", "0.01x", "--parts", "heads", "--importance", "weight")
    assert r.returncode == 1 and "times as long" in r.stderr
    for more in (["--latency", "fast"], ["--latency", "1.5x"], ["--latency", "0.7x", "--ratio", 0.1]):
        assert prune(files, out, *more).returncode == 2


def test_what_leaves_no_model_is_refused(files, tmp_path):
    out = tmp_path / "out.gguf"
    for more, status, word in ((["--ratio", 0.95], 1, "cannot be reached"), (["--ratio", 1.5], 2, "--ratio"),
                               (["--ratio", 0.2, "--parts", "noses"], 2, "noses"), ([], 2, "target"),
                               (["--params", "many"], 2, "many"), (["--kv-heads", 3], 1, "merged"),
                               (["--ratio", 0.2, "--tokens", 2048], 1, "context"),
                               (["--threshold", 0.5, "--parts", "width"], 2, "--threshold"),
                               (["--ratio", 0.2, "--parts", "experts"], 1, "no experts"),
                               (["--ratio", 0.2, "--parts", "experts,heads"], 2, "alone")):
        r = prune(files, out, *more)
        assert r.returncode == status and word in r.stderr and not out.exists(), r.stderr
    (tmp_path / "short.txt").write_text("Too short.")
    r = run("prune", files / "model.gguf", out, "-f", tmp_path / "short.txt", "--ratio", 0.1)
    assert r.returncode == 1 and "tokens" in r.stderr and not out.exists() and not list(tmp_path.glob("*partial*"))


def test_what_is_broken_is_told_and_nothing_is_left(files, tmp_path):
    data = bytearray((files / "model.gguf").read_bytes())
    tensors = json.loads(run("inspect", files / "model.gguf", "--json").stdout)["tensors"]
    out = tmp_path / "out" / "out.gguf"
    out.parent.mkdir()
    for tensor in ("blk.1.ffn_down.weight", "blk.2.attn_k.weight"):
        at = next(t["offset"] for t in tensors if t["name"] == tensor)
        broken = bytearray(data)
        broken[at:at + 4] = b"\xff\xff\xff\x7f"
        (tmp_path / "nan.gguf").write_bytes(broken)
        for how in ("taylor", "weight"):
            r = run("prune", tmp_path / "nan.gguf", out, "-f", files / "text.txt", "--tokens", 64, "--ratio", 0.1, "--importance", how)
            assert r.returncode == 1 and "NaN" in r.stderr and tensor in r.stderr, r.stderr
            assert not list(out.parent.iterdir())

    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000))
    r = subprocess.run([MILLRACE, "prune", files / "model.gguf", out, "--ratio", "0.1", "--importance", "weight"],
                       capture_output=True, text=True, preexec_fn=limit)
    assert r.returncode == 1 and re.search("too large|cannot write", r.stderr), r.stderr
    assert not list(out.parent.iterdir())


def test_an_interrupted_run_leaves_nothing(files, tmp_path):
    (tmp_path / "long.txt").write_text("The mill stands where the river bends. " * 200000)
    out = tmp_path / "out.gguf"
    p = subprocess.Popen([MILLRACE, "prune", files / "model.gguf", out, "-f", tmp_path / "long.txt", "--ratio", "0.1", "--windows",
                          "0", "-t", "1"], stderr=subprocess.PIPE, text=True)
    with pytest.raises(subprocess.TimeoutExpired):
        p.wait(1)
    p.send_signal(signal.SIGINT)
    p.communicate()
    assert p.returncode in (130, -signal.SIGINT)
    assert [f.name for f in tmp_path.iterdir()] == ["long.txt"]
