"""`millrace tokenize`."""
import json
import os
import subprocess
from pathlib import Path

import pytest
from reference_tokenizers import GEMMA, ROOT, SMOLLM2

PROGRAM = os.environ.get("MILLRACE", str(ROOT / "build/release/millrace"))
needs_smollm2 = pytest.mark.skipif(not SMOLLM2.exists(), reason="models/ lacks SmolLM2: scripts/fetch_models.py smollm2")


def tokenize(*arguments, model=SMOLLM2, stdin=""):
    return subprocess.run([PROGRAM, "tokenize", *(["-m", model] if model else []), *arguments], input=stdin, capture_output=True,
                          text=True)


@needs_smollm2
def test_json_gives_the_ids():
    assert json.loads(tokenize("-p", "A<|im_start|>B", "--json").stdout) == {"tokens": [49, 44, 108, 306, 79, 3738, 108, 46, 50]}
    assert json.loads(tokenize("-p", "A<|im_start|>B", "--special", "--json").stdout) == {"tokens": [49, 1, 50]}
    assert json.loads(tokenize("-p", "", "--json").stdout) == {"tokens": []}


@pytest.mark.skipif(not GEMMA.exists(), reason="models/ lacks Gemma: scripts/fetch_models.py gemma3")
def test_bos_is_there_as_in_a_generation():
    assert json.loads(tokenize("-p", "hi", "--json", model=GEMMA).stdout) == {"tokens": [2, 2202]}
    assert json.loads(tokenize("-p", "hi", "--json", "--no-bos", model=GEMMA).stdout) == {"tokens": [2202]}


@needs_smollm2
def test_text_from_a_file_or_a_pipe(tmp_path):
    text = tmp_path / "text"
    text.write_text("12 34")
    want = {"tokens": [33, 34, 216, 35, 36]}
    assert json.loads(tokenize("--file", text, "--json").stdout) == want
    assert json.loads(tokenize("--json", stdin="12 34").stdout) == want


@needs_smollm2
def test_a_person_sees_ids_and_pieces():
    assert tokenize("-p", "a\n\u00e9\u4f60").stdout.splitlines() == [
        "     81  'a'", "    198  '\\n'", "   2756  '\u00e9'", "  18645  '\\xe4\\xbd'", "    250  '\\xa0'"]


@needs_smollm2
def test_tokens_become_text_again():
    assert tokenize("--detokenize", "12420,982 422").stdout == "don't D\n"
    assert json.loads(tokenize("--detokenize", "18645", "--json").stdout) == {"text": "\ufffd"}
    assert tokenize("--detokenize", "1,81", "--special").stdout == "<|im_start|>a\n"
    assert tokenize("--detokenize", "1,81").stdout == "a\n"


@needs_smollm2
@pytest.mark.parametrize("arguments, word", [
    (["--nonsense"], "--nonsense"), (["-p", "a", "--file", "b"], "--file"), (["--detokenize", "49152"], "49152"),
    (["--detokenize", "-1"], "-1"), (["--detokenize", "1,x"], "'x'"), (["--detokenize", "99999999999999999999"], "99999999"),
])
def test_wrong_usage_is_named_in_one_line(arguments, word):
    r = tokenize(*arguments)
    assert r.returncode == 2 and r.stdout == ""
    assert word in r.stderr and r.stderr.count("\n") == 1


def test_a_model_is_required_and_must_be_one(tmp_path):
    r = tokenize("-p", "a", model=None)
    assert r.returncode == 2 and "--model" in r.stderr
    r = tokenize("-p", "a", model=Path(__file__))
    assert r.returncode == 1 and "not a GGUF file" in r.stderr and r.stderr.count("\n") == 1
    r = tokenize("-p", "a", model=tmp_path / "missing.gguf")
    assert r.returncode == 1 and "missing.gguf" in r.stderr


def test_help_gives_an_example():
    r = tokenize("--help", model=None)
    assert r.returncode == 0 and "Example:" in r.stdout and "millrace tokenize -m" in r.stdout
