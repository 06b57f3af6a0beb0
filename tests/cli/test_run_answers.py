"""`millrace run`: bad words, the best of several answers, logprobs of the prompt, token healing."""
import json

from program import SMOLLM2, needs_smollm2, run

pytestmark = needs_smollm2


def answer(*args):
    r = run("run", "-m", SMOLLM2, "-c", 512, "--json", *args)
    assert r.returncode == 0, r.stderr
    return json.loads(r.stdout)


def test_bad_words_do_not_occur():
    ask = ("-p", "What is the capital of France?", "--temp", "0", "-n", "16")
    assert "Paris" in answer(*ask)["text"]
    got = answer(*ask, "--bad-word", "Paris", "--bad-word", "is ")["text"]
    assert len(got) > 10 and "Paris" not in got and "is " not in got


def test_a_healed_word_goes_on_where_it_was_cut():
    ask = ("--raw", "-p", "The capital of France is Par", "--temp", "0", "-n", "4", "--token-healing", "--prompt-logprobs", "2")
    got = answer(*ask)
    assert got["text"].startswith("is") and got["timings"]["prompt_n"] == 5
    scored = got["prompt_logprobs"]
    assert len(scored) == 4 and all(len(entry["top"]) == 2 for entry in scored)
    for entry in scored:
        assert entry["logprob"] <= entry["top"][0]["logprob"] <= 0
        assert entry["top"][1]["logprob"] <= entry["top"][0]["logprob"]


def test_the_best_of_one_is_the_answer_and_more_do_not_change_its_length():
    ask = ("-p", "Name a colour.", "--temp", "1", "--seed", "3", "-n", "6", "--ignore-eos")
    assert answer(*ask, "--best-of", "1")["tokens"] == answer(*ask)["tokens"]
    assert len(answer(*ask, "--best-of", "3")["tokens"]) == 6


def test_contradictions_are_named():
    for args, words in ((("--token-healing", "--bad-word", "x"), ("--token-healing", "--bad-word")),
                        (("--prompt-logprobs", "1"), ("--prompt-logprobs", "--json")),
                        (("--bad-word", ""), ("--bad-word", "0 bytes")),
                        (("--best-of", "0"), ("--best-of",))):
        r = run("run", "-m", SMOLLM2, "-p", "x", *args)
        assert r.returncode == 2 and all(word in r.stderr for word in words), r.stderr
