"""`millrace run` under a constraint: every answer that ends by itself obeys it; what cannot be enforced ends before the model loads."""
import json
import os
import re
import subprocess
from pathlib import Path

import jsonschema
import pytest

MILLRACE = os.environ["MILLRACE"]
MODEL = Path(__file__).resolve().parents[2] / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf"
pytestmark = pytest.mark.skipif(not MODEL.exists(), reason="models/ lacks SmolLM2: scripts/fetch_models.py smollm2")
PERSON = {"type": "object", "properties": {"name": {"type": "string", "minLength": 1, "maxLength": 30},
                                           "age": {"type": "integer", "minimum": 0, "maximum": 150},
                                           "tags": {"type": "array", "items": {"enum": ["red", "green"]}, "maxItems": 3}},
          "required": ["name", "age", "tags"], "additionalProperties": False}


def run(*arguments, model=MODEL):
    return subprocess.run([MILLRACE, "run", "-m", str(model), *arguments], capture_output=True, text=True, stdin=subprocess.DEVNULL)


def answer(*arguments):
    done = run("--json", *arguments)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("schema", [PERSON, {"type": "integer"}, {"type": "string", "pattern": "^[a-z]+$", "maxLength": 12},
                                    {"anyOf": [{"const": "yes"}, {"type": "null"}]}])
@pytest.mark.parametrize("sampling", [("--temp", "0"), ("--temp", "1", "--seed", "5"), ("--temp", "1.5", "--top-k", "0", "--seed", "6")])
def test_answers_validate(schema, sampling):
    got = answer("-p", "Tell me about a person as JSON.", "-n", "150", "--json-schema", json.dumps(schema), *sampling)
    if got["finish_reason"] == "stop":
        jsonschema.validate(json.loads(got["text"]), schema)
        # The tokens are those of the JSON: nothing is hidden around it.
        assert len(got["tokens"]) <= len(got["text"].encode()) + 1
    else:
        assert schema is PERSON  # the others are short


def test_line_ends_do_not_fill_the_answer():
    line_end = json.loads(subprocess.run([MILLRACE, "tokenize", "-m", str(MODEL), "-p", "\n", "--json"], capture_output=True,
                                         text=True).stdout)["tokens"]
    for schema in ({"type": "object"}, {"type": "integer"}):
        got = answer("-p", "reply with an example object", "-n", "200", "--temp", "0", "--json-schema", json.dumps(schema),
                     "--logit-bias", f"{line_end[0]}+20")
        assert "\n\n" not in got["text"]
        assert got["text"] == got["text"].strip()


def test_a_regular_expression_and_a_grammar():
    got = answer("-p", "Is the sky blue?", "--temp", "0", "--regex", r"(yes|no), because [a-z ]{5,40}\.")
    assert got["finish_reason"] == "stop" and re.fullmatch(r"(yes|no), because [a-z ]{5,40}\.", got["text"])
    got = answer("-p", "Is the sky blue?", "--temp", "1", "--seed", "1", "--grammar", 'root ::= "yes" | "no" | "I cannot tell"')
    assert got["finish_reason"] == "stop" and got["text"] in ("yes", "no", "I cannot tell")


def test_sources_from_files(tmp_path):
    (tmp_path / "s.json").write_text('{"type": "boolean"}')
    assert answer("-p", "Is it?", "--json-schema-file", str(tmp_path / "s.json"))["text"] in ("true", "false")
    (tmp_path / "g.gbnf").write_text('root ::= [0-9]{3}\n')
    assert re.fullmatch("[0-9]{3}", answer("-p", "A number?", "--grammar-file", str(tmp_path / "g.gbnf"))["text"])
    done = run("-p", "x", "--grammar-file", str(tmp_path / "none"))
    assert done.returncode == 2 and "--grammar-file" in done.stderr and "none" in done.stderr


def test_an_answer_cut_short_says_so():
    got = answer("-p", "Tell me about a person.", "-n", "3", "--json-schema", json.dumps(PERSON))
    assert got["finish_reason"] == "length"


@pytest.mark.parametrize("arguments, words", [
    (("--regex", "lamp**"), ["--regex", "repeat"]),
    (("--regex", "("), ["--regex", "not closed"]),
    (("--json-schema", '{"type": "notatype"}'), ["--json-schema", "notatype"]),
    (("--json-schema", '{"properties": {"value": "bar"}}'), ["--json-schema", "value"]),
    (("--json-schema", '{"items": {"contains": {}}}'), ["#/items", "contains"]),
    (("--json-schema", "false"), ["false"]),
    (("--grammar", 'root ::= x'), ["--grammar", "x", "not defined"]),
    (("--grammar", 'root ::= root "a" | "b"'), ["left-recursive"]),
    (("--grammar", 'root ::= "a"', "--regex", "a"), ["--grammar", "--regex", "exclude"]),
    (("--ignore-eos", "--regex", "a"), ["--ignore-eos"]),
])
def test_what_cannot_be_enforced_is_refused_before_the_model_loads(arguments, words, tmp_path):
    done = run("-p", "x", *arguments, model=tmp_path / "no-model.gguf")
    assert done.returncode == 2
    assert done.stdout == "" and done.stderr.count("\n") == 1
    for word in words:
        assert word in done.stderr
