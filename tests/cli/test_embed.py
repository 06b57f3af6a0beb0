"""`millrace embed`: vectors of texts against transformers in float32 (tests/golden/make_embeddings.py), and its options."""
import json

import numpy as np
import pytest
from program import ROOT, SMOLLM2, needs_smollm2, run

REFERENCE = np.load(ROOT / "tests/golden/data/embeddings.npz")
TEXTS = [str(t) for t in REFERENCE["texts"]]


def embed(*args, texts=TEXTS):
    r = run("embed", "-m", SMOLLM2, "--json", *sum((["-p", t] for t in texts), []), *args)
    assert r.returncode == 0, r.stderr
    return json.loads(r.stdout)


def distance(got, want):
    return np.abs(np.asarray(got) - want).max() / np.abs(want).max()


@needs_smollm2
@pytest.mark.parametrize("pooling", ["mean", "cls", "last"])
@pytest.mark.parametrize("precision, tolerance", [("fp32", 1e-5), ("auto", 0.02)])
def test_vectors_are_those_of_transformers(pooling, precision, tolerance):
    answer = embed("--raw", "--pooling", pooling, "--precision", precision)
    assert answer["pooling"] == pooling
    assert answer["n_tokens"] == [len(REFERENCE[f"ids_{i}"]) for i in range(len(TEXTS))]
    for i, vector in enumerate(answer["embeddings"]):
        assert distance(vector, REFERENCE[f"{pooling}_{i}"]) < tolerance


@needs_smollm2
def test_a_vector_is_the_same_alone_and_beside_others():
    together = embed("--pooling", "mean", "-t", 2)["embeddings"]
    for text, vector in zip(TEXTS, together):
        assert embed("--pooling", "mean", "-t", 1, "--prompt-chunk", 7, texts=[text])["embeddings"] == [vector]


@needs_smollm2
def test_a_vector_has_the_length_1_and_a_line_of_numbers():
    r = run("embed", "-m", SMOLLM2, "-p", "Hello")
    vector = np.array([float(x) for x in r.stdout.split()])
    assert r.stdout.count("\n") == 1 and len(vector) == 576
    assert abs(np.sum(vector * vector) - 1) < 1e-6
    assert vector.tolist() == embed(texts=["Hello"])["embeddings"][0]


@needs_smollm2
def test_a_text_comes_from_a_file_or_a_pipe(tmp_path):
    path = tmp_path / "text"
    path.write_text(TEXTS[1])
    want = embed(texts=TEXTS[1:2])
    assert embed("-f", path, texts=[]) == want
    assert json.loads(run("embed", "-m", SMOLLM2, "--json", input=TEXTS[1]).stdout) == want


@pytest.mark.parametrize("args, message", [
    (["-p", "a", "-f", "b"], "only one of --prompt and --file can be given"),
    (["-p", "a", "--pooling", "max"], "mean"),
])
def test_wrong_options_are_told(args, message):
    r = run("embed", "-m", "model.gguf", *args)
    assert r.returncode == 2 and message in r.stderr and r.stderr.count("\n") == 1


@needs_smollm2
def test_an_empty_text_is_an_error():
    r = run("embed", "-m", SMOLLM2, "-p", "")
    assert r.returncode == 1 and r.stderr == "millrace embed: the prompt is empty\n"
