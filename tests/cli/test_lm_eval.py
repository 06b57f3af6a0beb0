"""`millrace eval` beside what EleutherAI's lm-eval found out about the same model through our server (lm_eval_run.py)."""
import json

import pytest
from lm_eval_run import DATA, TASKS
from program import SMOLLM2, needs_smollm2, run

pytestmark = needs_smollm2


def read(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def scores(sample):
    """[(log-likelihood, whether greedy decoding gives it)] of a choice item of either."""
    got = sample["filtered_resps"]
    return [(float(p), str(greedy) == "True") for p, greedy in (got if isinstance(got[0], list) else [got])]


def compare(folder, tmp_path, tolerance):
    """Each item of the samples in the folder, scored again; then the metrics over all of them."""
    out, files = tmp_path / "samples.jsonl", [folder / f"samples_{task}.jsonl" for task in TASKS]
    r = run("eval", SMOLLM2, *(word for f in files for word in ("--tasks", f)), "--log-samples", out, "--json")
    assert r.returncode == 0, r.stderr
    ours, rates = {(s["task"], s["doc_id"]): s for s in read(out)}, json.loads(r.stdout)[0]["tasks"]
    for task, path in zip(TASKS, files):
        theirs = read(path)
        for t in theirs:
            o = ours.pop((task, t["doc_id"]))
            assert {m: o[m] for m in t["metrics"]} == {m: t[m] for m in t["metrics"]}, (t, o)
            if task != "mill_answer":
                assert [g for _, g in scores(o)] == [g for _, g in scores(t)], (t, o)
                assert [p for p, _ in scores(o)] == pytest.approx([p for p, _ in scores(t)], abs=tolerance), (t, o)
        for m in theirs[0]["metrics"]:
            assert rates[task][m]["rate"] == pytest.approx(sum(t[m] for t in theirs) / len(theirs), abs=1e-9)
    assert not ours


def test_each_item_and_metric_is_that_of_lm_eval(tmp_path):
    """The stored samples are of one instruction set, others add in another order."""
    compare(DATA, tmp_path, 0.02)


def test_log_samples_needs_tasks_and_a_place(tmp_path):
    task = DATA / "samples_mill_word.jsonl"
    for args, status, word in (([], 2, "--tasks"), (["--tasks", task], 1, "/nonexistent/x")):
        (tmp_path / "text.txt").write_text("The mill stands where the river is narrow. " * 4)
        r = run("eval", SMOLLM2, "-f", tmp_path / "text.txt", *args, "--log-samples", "/nonexistent/x")
        assert r.returncode == status and word in r.stderr and r.stderr.count("\n") == 1, r.stderr
