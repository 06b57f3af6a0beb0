"""The tasks of lm_eval/ by EleutherAI's lm-eval (PyPI) through our server, which is all that it sees of the model.

    MILLRACE=build/release/millrace .venv/bin/python tests/cli/lm_eval_run.py     writes lm_eval/samples_*.jsonl again
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / name) for name in ("server", "text")]

from reference_tokenizers import SPLITS  # noqa: E402
from gguf import GGUFReader  # noqa: E402
from program import ROOT, SMOLLM2  # noqa: E402
from server import Server  # noqa: E402
from tokenizers import AddedToken, Tokenizer, decoders, models  # noqa: E402

DATA = Path(__file__).resolve().parent / "lm_eval"
TASKS = ("mill_choice", "mill_word", "mill_answer")
CONTROL = 3


def write_tokenizer(folder):
    """SmolLM2's tokenizer as the folder that transformers reads."""
    fields = GGUFReader(str(SMOLLM2)).fields
    tokens, kinds, merges = (fields[f"tokenizer.ggml.{name}"].contents() for name in ("tokens", "token_type", "merges"))
    t = Tokenizer(models.BPE({s: i for i, s in enumerate(tokens)}, [tuple(m.split(" ")) for m in merges]))
    t.pre_tokenizer, t.decoder = SPLITS["smollm"], decoders.ByteLevel()
    t.add_special_tokens([AddedToken(s, normalized=False) for s, kind in zip(tokens, kinds) if kind == CONTROL])
    t.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|im_end|>"}')


def python():
    command = [ROOT / "scripts/venv.sh", ROOT / "build/lm-eval-venv", DATA / "requirements.txt"]
    return subprocess.run([*map(str, command)], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def run(out):
    """Samples of all tasks into the folder `out`, called samples_TASK.jsonl."""
    program = python()
    with tempfile.TemporaryDirectory() as folder, Server() as server:
        write_tokenizer(Path(folder))
        name = server.get("/v1/models").json()["data"][0]["id"]
        model = f"model={name},base_url={server.url}/v1/completions,tokenizer_backend=huggingface,tokenizer={folder},max_length=2048"
        command = [program, "-m", "lm_eval", "run", "--model", "local-completions", "--model_args", model, "--tasks", ",".join(TASKS), "--include_path",
                   str(DATA), "--output_path", folder, "--log_samples", "--batch_size", "4"]
        environment = {**os.environ, "HF_HOME": folder, "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
        r = subprocess.run(command, cwd=DATA, env=environment, capture_output=True, text=True)
        if r.returncode != 0:
            sys.exit(r.stderr[-4000:])
        for task in TASKS:
            shutil.copy(next(Path(folder).rglob(f"samples_{task}_*.jsonl")), out / f"samples_{task}.jsonl")
    return re.sub(r"\n+", "\n", r.stdout)


if __name__ == "__main__":
    print(run(DATA))
