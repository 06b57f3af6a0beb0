"""`millrace eval`."""
import json
import math
import xml.etree.ElementTree as ElementTree

import pytest
from program import SMOLLM2, needs_smollm2, run

TEXT = "The mill stands where the river is narrow. Its wheel turns day and night. " * 4


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text(TEXT)
    return path


@pytest.fixture
def samples(tmp_path):
    path = tmp_path / "samples_toy_2026-01-01.jsonl"
    lines = [{"target": 0, "arguments": [["The capital of France is", " Paris"], ["The capital of France is", " seven"]]},
             {"target": "1", "arguments": {"gen_args_0": {"arg_0": "Two and two are", "arg_1": " a long way from London"},
                                           "gen_args_1": {"arg_0": "Two and two are", "arg_1": " four"}}},
             {"target": "5", "arguments": [["1, 2, 3, 4,", {"until": [","], "max_gen_toks": 8}]]}]
    path.write_text("\n".join(map(json.dumps, lines)))
    return path


@needs_smollm2
def test_models_tasks_and_a_text_in_one_table(text, samples, tmp_path):
    plot = tmp_path / "p.svg"
    r = run("eval", SMOLLM2, SMOLLM2, "--base", SMOLLM2, "-f", text, "--tasks", samples, "--json", "--plot", plot)
    assert r.returncode == 0, r.stderr
    first, second = json.loads(r.stdout)
    assert first == second and first["file_bytes"] == SMOLLM2.stat().st_size
    perplexity = json.loads(run("perplexity", "-m", SMOLLM2, "-f", text, "--json").stdout)
    assert {k: first["text"][k] for k in perplexity} == pytest.approx(perplexity, rel=1e-6)
    assert 0 < first["text"]["kl"]["mean"] < 0.05 and first["text"]["same_top"]["mean"] > 0.85
    change = math.log(first["text"]["perplexity"] / first["text"]["base_perplexity"])
    assert first["text"]["nll_change"]["mean"] == pytest.approx(change, abs=1e-6)
    toy = first["tasks"]["toy"]
    assert toy["n_choice_items"] == 2 and toy["acc"]["rate"] == 1 and toy["acc_norm"]["interval"][0] > 0
    assert toy["exact_match"]["rate"] == 1
    assert ElementTree.parse(plot).getroot().tag.endswith("svg")


@needs_smollm2
def test_people_get_markdown(samples):
    lines = run("eval", SMOLLM2, "--tasks", samples).stdout.splitlines()
    assert len(lines) == 3 and all(line.startswith("| ") or line.startswith("|--") for line in lines)
    assert len({line.count("|") for line in lines}) == 1


@needs_smollm2
def test_what_cannot_be_measured_is_an_error_of_one_line(text, tmp_path):
    bad = tmp_path / "bad.jsonl"
    bad.write_text('{"arguments": 1}')
    for args, status, word in (([SMOLLM2], 2, "--tasks"), ([SMOLLM2, "--base", SMOLLM2, "--tasks", bad], 2, "--base"),
                               ([SMOLLM2, "--tasks", bad], 1, "line 1"), ([SMOLLM2, "-f", text, "--stride", 2047], 2, "--stride"),
                               ([tmp_path / "none.gguf", "-f", text], 1, "none.gguf"), ([], 2, "MODEL"),
                               ([SMOLLM2, "-f", text, "--plot", "/nonexistent/x.svg"], 1, "/nonexistent/x.svg")):
        r = run("eval", *args)
        assert r.returncode == status and r.stderr.count("\n") == 1 and word in r.stderr, r.stderr
