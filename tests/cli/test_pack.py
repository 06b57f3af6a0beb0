"""`millrace pack`: a packed model answers as the original does; what does not fit is refused in one line."""
import json

import pytest

from program import SMOLLM2, needs_smollm2, run

ASK = ["-p", "What is the capital of France?", "--temp", 0, "-n", 8, "--json"]


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    path = tmp_path_factory.mktemp("pack") / "packed.gguf"
    r = run("pack", SMOLLM2, path)
    assert r.returncode == 0, r.stderr
    return path


@needs_smollm2
def test_a_packed_model_answers_alike(packed):
    a, b = (json.loads(run("run", "-m", m, *ASK).stdout)["tokens"] for m in (SMOLLM2, packed))
    assert a == b


@needs_smollm2
def test_inspect_shows_what_was_packed(packed):
    a, b = (json.loads(run("inspect", "--json", m).stdout)["tensors"] for m in (SMOLLM2, packed))
    assert {t["name"]: (t["type"], t["shape"]) for t in a} == {t["name"]: (t["type"], t["shape"]) for t in b}


@needs_smollm2
@pytest.mark.parametrize("args, status, words", [(["run", "-m", "packed", *ASK, "--precision", "fp32"], 1, "pack the original model again"),
                                                 (["pack", "packed", "other"], 1, "packed already"),
                                                 (["pack", "packed", "packed"], 2, "OUT is the file IN")])
def test_what_does_not_fit_is_refused(packed, tmp_path, args, status, words):
    r = run(*[{"packed": packed, "other": tmp_path / "other"}.get(a, a) for a in args])
    assert r.returncode == status
    assert words in r.stderr and r.stderr.count("\n") == 1
    assert not (tmp_path / "other").exists()
