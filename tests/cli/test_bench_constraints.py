"""`millrace bench --constraints`: masks of SmolLM2's vocabulary, and answers under a schema."""
import json

from program import SMOLLM2, needs_smollm2, run


@needs_smollm2
def test_every_case_is_measured_and_the_answers_have_rates():
    r = run("bench", "--constraints", "-m", SMOLLM2, "-c", 256, "--repeat", 1, "--json")
    assert r.returncode == 0, r.stderr
    figures = json.loads(r.stdout)
    assert figures["vocabulary"] == 49152 and len(figures["cases"]) == 8
    for case in figures["cases"]:
        assert case["compile_ms"] > 0 and case["mask_bytes"] > 0 and case["time"]["masks"] > 10
        assert 0 < case["time"]["first_median_us"] <= case["time"]["first_p99_us"]
    assert figures["all"]["masks"] == sum(case["time"]["masks"] for case in figures["cases"])
    rates = figures["tokens_per_second"]
    assert rates["free"] > 0 and rates["constrained"] > 0 and rates["drafted"] > 0
    assert 0 <= rates["drafts_accepted"] <= rates["drafts"]


def test_a_model_is_required():
    r = run("bench", "--constraints")
    assert r.returncode == 2 and "--model" in r.stderr
