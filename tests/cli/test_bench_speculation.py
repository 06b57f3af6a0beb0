"""`millrace bench --speculation`: what each method brings by task."""
import json

from program import SMOLLM2, needs_smollm2, run

TASKS = ["quote", "edit code", "JSON from a document", "prediction, 90 % right", "chat", "long answer"]


@needs_smollm2
def test_every_method_is_measured_on_every_task():
    r = run("bench", "--speculation", "-m", SMOLLM2, "--gen", "8", "--repeat", "1", "--batch", "1,2", "--json")
    assert r.returncode == 0, r.stderr
    results = json.loads(r.stdout)["results"]
    assert list(dict.fromkeys(f["task"] for f in results)) == TASKS
    for task in TASKS:
        methods = ["off", "ngram", *(["reference"] if task.startswith("prediction") else []), "lookahead", "layers", "auto"]
        assert [(f["streams"], f["method"]) for f in results if f["task"] == task] == [(n, m) for n in (1, 2) for m in methods]
    for f in results:
        assert f["ratio"] > 0 and f["tokens_per_step"] >= 1 and 0 <= f["accepted_per_token"] <= f["drafted_per_token"] and 0 <= f["guess_share"] < 1
        assert f["method"] != "off" or f["drafted_per_token"] == 0
    assert max(f["tokens_per_step"] for f in results if f["method"] == "reference") > 1


def test_help_shows_an_example():
    r = run("bench", "--speculation", "--help")
    assert r.returncode == 0 and "bench --speculation -m" in r.stdout


def test_with_a_method_it_is_another_benchmark():
    r = run("bench", "--speculation", "ngram", "--help")
    assert r.returncode == 0 and "--speculation -m" not in r.stdout
