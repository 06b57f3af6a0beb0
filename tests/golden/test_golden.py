"""Logits and greedy answers against transformers in float32 (make_references.py), and the cost of the default precision."""
import json
import os
import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
DATA = Path(__file__).parent / "data"
PROGRAMS = Path(os.environ.get("MILLRACE_BUILD", ROOT / "build/release")) / "tests"
REAL = {"smollm2": "SmolLM2-135M-Instruct.Q4_1.gguf", "gemma3": "gemma-3-270m-q4_k_m.gguf"}
TINY = ["llama3", "llama_linear", "llama_yarn", "mistral", "qwen2", "qwen3", "gemma3", "olmoe", "gpt2"]
SIMULATED = json.loads((DATA / "rounding.json").read_text())
TOLERANCE = 1e-3
TIE = 1e-3      # best logits closer than this may change places


def real_model(name):
    path = ROOT / "models" / REAL[name]
    if not path.exists():
        pytest.skip(f"{path} is not there (scripts/fetch_models.py)")
    return path


def sequence(ids, n_logits):
    return struct.pack("<ii", len(ids), n_logits) + np.asarray(ids, np.int32).tobytes()


def dump(model, sequences, ids, precision="fp32", chunk=512):
    """For each row: best id, best and second best logit, logits at ids."""
    run = subprocess.run([PROGRAMS / "logits_dump", model, precision, "0", str(chunk), str(len(ids)), *map(str, ids)],
                         input=b"".join(sequences), capture_output=True, check=False)
    assert run.returncode == 0, run.stderr.decode()
    rows = np.frombuffer(run.stdout, np.float32).reshape(-1, 3 + len(ids))
    return rows.view(np.int32)[:, 0], rows[:, 1], rows[:, 2], rows[:, 3:]


@pytest.mark.parametrize("name", TINY)
def test_families_on_small_random_models(name):
    reference = np.load(DATA / "tiny.npz")
    for n in (1, 40, 300):
        i = np.arange(n)
        want = reference[f"{name}_{n}"]
        _, _, _, got = dump(DATA / f"tiny_{name}.gguf", [sequence((i * i * 7 + i * 13 + 5) % 256, len(want))], range(256))
        assert np.abs(got - want).max() < 1e-4


@pytest.fixture(scope="module", params=list(REAL))
def answers(request):
    """The reference, and our figures when its answers are fed back: what greedy decoding gives as long as it agrees, since a
    row's logits do not depend on how rows are batched (test_numeric_rule.c)."""
    model, reference = real_model(request.param), np.load(DATA / f"{request.param}.npz")
    n_prompt = sum(key.startswith("prompt_") for key in reference.files)
    prompts = [reference[f"prompt_{i}"] for i in range(n_prompt)]
    fed = [np.concatenate([p, reference[f"answer_{i}"][:-1]]) for i, p in enumerate(prompts)]
    n_answer = len(reference["answer_0"])
    best, first, second, logits = dump(model, [sequence(ids, n_answer) for ids in fed], reference["ids"])
    rows = [slice(i * n_answer, (i + 1) * n_answer) for i in range(n_prompt)]
    return reference, [(best[r], first[r], second[r], logits[r]) for r in rows]


def test_logits_of_twenty_prompts(answers):
    reference, ours = answers
    assert len(ours) == 20
    assert {len(reference["prompt_0"]), len(reference["prompt_19"])} == {1, 1500}
    worst = 0
    for i, (_, best, second, logits) in enumerate(ours):
        for got, want in ((logits[0], reference[f"first_{i}"]), (logits[-1], reference[f"last_{i}"]),
                          (best, reference[f"best_{i}"]), (second, reference[f"second_{i}"])):
            worst = max(worst, np.abs(got - want).max())
    print(f"largest difference of a logit: {worst:.2e}")
    assert worst < TOLERANCE


def test_greedy_answers_of_128_tokens(answers):
    reference, ours = answers
    for i, (best, _, _, _) in enumerate(ours):
        gap = reference[f"best_{i}"] - reference[f"second_{i}"]
        differs = best != reference[f"answer_{i}"]
        assert len(best) == 128
        assert not (differs & (gap >= TIE)).any(), f"prompt {i}"


@pytest.mark.parametrize("name", list(REAL))
def test_decoding_token_by_token_gives_the_same_answer(name):
    model, reference = real_model(name), np.load(DATA / f"{name}.npz")
    prompt, want = reference["prompt_7"], reference["answer_7"]
    gap = reference["best_7"] - reference["second_7"]
    n = int(np.argmax(gap < TIE)) if (gap < TIE).any() else len(want)
    fed = np.concatenate([prompt, want[:n - 1]])
    best, *_ = dump(model, [sequence(fed, n)], [0], chunk=1)
    assert list(best) == list(want[:n])


@pytest.mark.parametrize("name", list(SIMULATED))
def test_default_precision_costs_what_its_rounding_costs(name):
    model, reference, simulated = real_model(name), np.load(DATA / f"{name}.npz"), SIMULATED[name]
    sequences = [sequence(reference[f"prompt_{i}"], 0) for i in simulated["prompts"]]
    run = subprocess.run([PROGRAMS / "precision_loss", model, "0"], input=b"".join(sequences), capture_output=True, check=True)
    ours = json.loads(run.stdout)
    print(f"{name}: KL {ours['kl']:.3e}, simulated {simulated['kl']:.3e}; perplexity {ours['perplexity_fp32']:.4f} in fp32, "
          f"{ours['perplexity']:.4f} by default")
    assert ours["positions"] == simulated["positions"]
    assert ours["kl"] < 1.2 * simulated["kl"]
    assert ours["kl"] < 4e-3
    assert abs(ours["perplexity"] / ours["perplexity_fp32"] - 1) < 0.01


@pytest.mark.parametrize("name", list(SIMULATED))
def test_keys_and_values_in_int8_cost_little(name):
    model, reference = real_model(name), np.load(DATA / f"{name}.npz")
    prompts = [reference[f"prompt_{i}"] for i in range(20)]
    sequences = [sequence(p, 0) for p in prompts if len(p) < 200]
    run = subprocess.run([PROGRAMS / "precision_loss", model, "0", "kv-int8"], input=b"".join(sequences), capture_output=True,
                         check=True)
    ours = json.loads(run.stdout)
    assert ours["positions"] > 100
    assert ours["kl"] < 1e-3
