"""`millrace bench --replay`: guesses measured on a text."""
import json

import pytest

from program import ROOT, SMOLLM2, needs_smollm2, run

pytestmark = needs_smollm2


def replay(*options):
    r = run("bench", "--replay", ROOT / "README.md", "-m", SMOLLM2, "--gen", "48", "--prompt", "16", "--repeat", "1", *options)
    assert r.returncode == 0, r.stderr
    return r.stdout


def test_the_share_of_right_guesses_is_as_told():
    results = json.loads(replay("--acceptance", "0,80,100", "--batch", "1,3", "--json"))["results"]
    assert [(f["streams"], f["acceptance"]) for f in results] == [(n, p) for n in (1, 3) for p in (0, 0.8, 1)]
    for none, most, every in (results[:3], results[3:]):
        assert none["accepted_per_token"] == 0 <= most["accepted_per_token"] < every["accepted_per_token"] == every["drafted_per_token"]
        assert all(f["plain_tok_s"] > 0 and f["tok_s"] > 0 and f["ratio"] > 0 for f in (none, most, every))


@pytest.mark.parametrize("method", ["ngram", "lookahead", "off"])
def test_a_method_guesses(method):
    found = json.loads(replay("--speculation", method, "--json"))
    assert found["method"] == method and len(found["results"]) == 1 and "acceptance" not in found["results"][0]
    assert found["results"][0]["drafted_per_token"] >= found["results"][0]["accepted_per_token"] >= 0
    assert method != "off" or found["results"][0]["drafted_per_token"] == 0


def test_a_table_has_a_line_for_each_case():
    lines = replay("--acceptance", "0,100").splitlines()
    assert len(lines) == 3 and lines[1].startswith("0 % right") and lines[2].startswith("100 % right")


@pytest.mark.parametrize("options, message", [
    (["--replay", "/nonexistent"], "/nonexistent"),
    (["--replay", ROOT / "README.md", "--gen", "1000000"], "the text has"),
    (["--replay", ROOT / "README.md", "--acceptance", "101"], "'101' is not a list of integers from 0 to 100"),
    (["--replay", ROOT / "README.md", "--batch", "0"], "'0' is not a list of integers from 1 to 64"),
])
def test_what_is_wrong_is_named(options, message):
    r = run("bench", "-m", SMOLLM2, *options)
    assert r.returncode != 0 and message in r.stderr and r.stderr.count("\n") == 1
