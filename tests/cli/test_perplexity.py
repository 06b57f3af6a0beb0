"""`millrace perplexity`."""
import json
import random

import jsonschema
import pytest
from program import GEMMA, SMOLLM2, needs_gemma, needs_smollm2, run

SCHEMA = {"type": "object", "additionalProperties": False, "required": ["perplexity", "n_tokens"],
          "properties": {"perplexity": {"type": "number", "minimum": 1}, "n_tokens": {"type": "integer", "minimum": 1}}}
TEXT = ("The mill stands where the river is narrow. Its wheel turns day and night, and the miller's daughter counts the sacks. "
        "In spring the water is high, and the stones grind from dawn until the lamps are lit. ") * 4


def measure(path, *args, model=SMOLLM2):
    r = run("perplexity", "-m", model, "-f", path, "--json", *args)
    assert r.returncode == 0, r.stderr
    result = json.loads(r.stdout)
    jsonschema.validate(result, SCHEMA)
    return result


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text(TEXT)
    return path


@needs_smollm2
def test_every_token_but_the_first_counts(text):
    n = len(json.loads(run("tokenize", "-m", SMOLLM2, "-f", text, "--json").stdout)["tokens"])
    for window in ([], ["-c", 64], ["-c", 64, "--stride", 1 + n // 4]):
        assert measure(text, *window)["n_tokens"] == n - 1


@needs_smollm2
def test_chunks_and_threads_change_no_bit(text):
    want = measure(text, "-c", 96)
    for more in (["--prompt-chunk", 7], ["-t", 1]):
        assert measure(text, "-c", 96, *more) == want


@needs_smollm2
def test_sense_is_less_surprising_than_noise(text, tmp_path):
    noise = tmp_path / "noise.txt"
    noise.write_text("".join(random.Random(1).sample(TEXT, len(TEXT))))
    assert measure(text)["perplexity"] * 3 < measure(noise)["perplexity"]


@needs_gemma
def test_a_model_that_wants_a_bos_gets_one_in_each_window(text):
    # without its BOS this model predicts nothing: its perplexity is then in the thousands
    assert measure(text, "-c", 64, model=GEMMA)["perplexity"] < 60


@needs_smollm2
def test_a_pipe_is_read_and_people_are_told():
    r = run("perplexity", "-m", SMOLLM2, "-f", "-", input=TEXT)
    assert r.returncode == 0 and r.stdout.startswith("perplexity ")


@needs_smollm2
def test_what_cannot_be_measured_is_an_error_of_one_line(tmp_path):
    empty = tmp_path / "empty.txt"
    empty.write_text("")
    for args, status, word in ((["-f", empty], 1, "0 tokens"), (["-f", tmp_path / "none"], 1, "No such file"),
                               ([], 2, "--file"), (["-f", empty, "--stride", 0], 2, "--stride"),
                               (["-f", empty, "--stride", 2047], 2, "--stride: 2047 is not from 1 to 2046"),
                               (["-f", empty, "-c", 64, "--stride", 63], 2, "--stride"), (["-f", empty, "-c", 2], 2, "--ctx-size")):
        r = run("perplexity", "-m", SMOLLM2, *args)
        assert r.returncode == status and r.stderr.count("\n") == 1 and word in r.stderr
