"""`millrace redundancy`: what gives nothing can go, and a loss that may rise by anything lets all go."""
import json

import byte_tokenizer
import pytest
from program import run


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("redundancy")
    tokenizer = byte_tokenizer.write(folder / "tokenizer.gguf")
    r = run("init", "--tokenizer", tokenizer, "-o", folder / "model.gguf", "--layers", 3, "--width", 64, "--heads", 8, "--kv-heads", 4,
            "--channels", 160, "--context", 256, "--type", "f32")
    assert r.returncode == 0, r.stderr
    (folder / "text.txt").write_text("The mill stands where the river bends. " * 60)
    return folder


def measure(files, *more, model="model.gguf"):
    return run("redundancy", files / model, "-f", files / "text.txt", "--tokens", 64, "-t", 1, *more)


def test_a_loss_that_may_rise_lets_all_go(files):
    r = json.loads(measure(files, "--rise", 50, "--json").stdout)
    assert len(r["layers"]) == 3
    for layer in [*r["layers"], r["all_layers"]]:
        assert layer["heads"]["removable"] == 8 and layer["channels"]["removable"] == 160
        assert layer["heads"]["share"] == layer["channels"]["share"] == 1


def test_what_gives_nothing_can_go(files, tmp_path):
    data = bytearray((files / "model.gguf").read_bytes())
    for t in json.loads(run("inspect", files / "model.gguf", "--json").stdout)["tensors"]:
        if t["name"] in ("blk.1.ffn_down.weight", "blk.2.attn_output.weight"):
            data[t["offset"]:t["offset"] + t["bytes"]] = bytes(t["bytes"])
    (files / "empty.gguf").write_bytes(data)
    r = json.loads(measure(files, "--rise", 0, "--json", model="empty.gguf").stdout)
    assert r["layers"][1]["channels"]["share"] == 1 and r["layers"][2]["heads"]["share"] == 1
    for kinds in r["layers"]:
        for kind in kinds.values():
            assert kind["rise"] <= 0 and 0 <= kind["removable"] <= kind["of"]
    shown = measure(files).stdout
    assert shown.count("\n") == 6 and "all" in shown


def test_bad_input(files, tmp_path):
    (tmp_path / "short.txt").write_text("Too short.")
    assert run("redundancy", files / "model.gguf").returncode == 2
    r = run("redundancy", files / "model.gguf", "-f", tmp_path / "short.txt")
    assert r.returncode == 1 and "tokens" in r.stderr
    r = measure(files, "--tokens", 4096)
    assert r.returncode == 1 and "context" in r.stderr
