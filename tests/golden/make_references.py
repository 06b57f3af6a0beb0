"""Reference figures of the golden tests, computed with torch and transformers in float32. `make references` runs this file.

data/NAME.npz of a real model: 20 prompts of 1 to 1,500 tokens, and for each
  prompt_I        token ids
  answer_I        the greedy continuation, N_ANSWER ids
  best_I, second_I the two largest logits at each of its steps
  first_I, last_I logits at the ids of `ids` at the first and last of these positions
  top_id_I, top_I the 16 largest logits at the first of them
data/tiny.npz and data/tiny_*.gguf: see tiny_models.py.
"""
import subprocess
import sys
from pathlib import Path

import numpy as np
import torch
import transformers

sys.path.insert(0, str(Path(__file__).parent))
import tiny_models  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent.parent
DATA = Path(__file__).parent / "data"
FILES = {"smollm2": "SmolLM2-135M-Instruct.Q4_1.gguf", "gemma3": "gemma-3-270m-q4_k_m.gguf"}
LENGTHS = [1, 2, 3, 7, 15, 16, 17, 31, 64, 65, 100, 128, 200, 257, 384, 512, 513, 700, 1100, 1500]
N_ANSWER, N_IDS, N_TOP = 128, 64, 16

TEXTS = [
    "The mill stands where the river bends. In spring the water is high and the wheel turns day and night; in August the miller "
    "sits on the step, mends sacks and waits for rain. ",
    "def mean(values):\n    total = 0.0\n    for v in values:\n        total += v\n    return total / len(values)\n\n",
    "Question: A train leaves at 9:40 and arrives at 13:05. How long does it travel?\nAnswer: 3 hours and 25 minutes.\n\n",
    "Der Müller mahlt das Korn, sein Sohn fährt es zum Markt. La farine est blanche comme la neige. El agua mueve la rueda. ",
    "| part | bytes | share |\n|---|---|---|\n| weights | 98,362,432 | 71.4 % |\n| cache | 23,592,960 | 17.1 % |\n\n",
    "To bake bread you need 500 g of flour, 350 ml of water, 10 g of salt and a little yeast. Knead for ten minutes, let it rise "
    "for an hour, fold it, let it rise again, and bake it hot. ",
]


def load(name):
    transformers.logging.disable_progress_bar()
    kwargs = dict(gguf_file=FILES[name])
    tokenizer = transformers.AutoTokenizer.from_pretrained(ROOT / "models", **kwargs)
    model = transformers.AutoModelForCausalLM.from_pretrained(ROOT / "models", dtype=torch.float32, **kwargs).eval()
    return tokenizer, model


def prompt(tokenizer, i, n):
    """The texts in turn, beginning with another one for each prompt; odd prompts have unlikely ids strewn in."""
    text = "".join(TEXTS[(i + k) % len(TEXTS)].replace("the", "the" if k % 3 else f"the {k}th") for k in range(60))
    ids = np.array(tokenizer(text, add_special_tokens=False)["input_ids"][:n], np.int32)
    assert len(ids) == n
    if tokenizer.bos_token_id is not None and n > 1 and "gemma" in type(tokenizer).__name__.lower():
        ids = np.concatenate([[tokenizer.bos_token_id], ids[:-1]]).astype(np.int32)
    if i % 2 == 1:
        place = np.arange(5, n, 23)
        ids[place] = (place * place * 31 + i) % 30000 + 300
    return ids


def draft(name, prompts):
    """Answers of the program under test. They only save time: see answer."""
    program = ROOT / "build/release/tests/greedy_batch"
    if not program.exists():
        return [np.zeros(N_ANSWER, np.int64) for _ in prompts]
    data = b"".join(np.int32([len(p), 0]).tobytes() + p.tobytes() for p in prompts)
    run = subprocess.run([program, ROOT / "models" / FILES[name], "fp32", "0", str(N_ANSWER)], input=data, capture_output=True,
                         check=True)
    return np.frombuffer(run.stdout, np.int32).reshape(len(prompts), -1).astype(np.int64)


def answer(model, ids, guess):
    """Logits at the last prompt position and at those of the greedy continuation but its last token. The model sees a guessed
    continuation whole; up to the first token that is not the model's own choice its choices are its greedy answer."""
    guess = np.array(guess)
    while True:
        token = torch.tensor(np.concatenate([ids, guess[:-1]])[None].astype(np.int64))
        with torch.no_grad():
            rows = model(token, use_cache=False, logits_to_keep=N_ANSWER).logits[0].numpy()
        wrong = np.flatnonzero(rows.argmax(1) != guess)
        if len(wrong) == 0:
            return rows
        print("  corrected at", wrong[0], flush=True)
        guess[wrong[0]:] = rows.argmax(1)[wrong[0]:]


def make_real(name):
    tokenizer, model = load(name)
    ids = np.sort(np.random.default_rng(7).choice(model.config.vocab_size, N_IDS, replace=False)).astype(np.int32)
    out = {"ids": ids}
    prompts = [prompt(tokenizer, i, n) for i, n in enumerate(LENGTHS)]
    guesses = draft(name, prompts)
    for i, (n, p) in enumerate(zip(LENGTHS, prompts)):
        rows = answer(model, p, guesses[i])
        top = np.argsort(-rows[0], kind="stable")[:N_TOP]
        best = np.sort(rows, axis=1)[:, -2:]
        out |= {f"prompt_{i}": p, f"answer_{i}": rows.argmax(1).astype(np.int32), f"best_{i}": best[:, 1],
                f"second_{i}": best[:, 0], f"first_{i}": rows[0, ids], f"last_{i}": rows[-1, ids],
                f"top_id_{i}": top.astype(np.int32), f"top_{i}": rows[0, top]}
        print(name, i, n, tokenizer.decode(rows.argmax(1)[:12]).encode("ascii", "replace").decode(), flush=True)
    np.savez_compressed(DATA / f"{name}.npz", **out)


def main():
    DATA.mkdir(exist_ok=True)
    wanted = sys.argv[1:] or ["tiny", *FILES]
    if "tiny" in wanted:
        tiny_models.make(DATA)
    for name in FILES:
        if name in wanted:
            make_real(name)


if __name__ == "__main__":
    main()
