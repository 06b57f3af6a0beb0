"""The default precision on 20,000 tokens of real conversations: perplexity within one per cent of fp32."""
import json
import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
MILLRACE = os.environ.get("MILLRACE", ROOT / "build/release/millrace")
MODEL = ROOT / "models/SmolLM2-135M-Instruct.Q4_1.gguf"
SHAREGPT = ROOT / "models/sharegpt.json"
N_CHARACTERS = 96_000       # a little over 20,000 tokens
WINDOW = 2048               # windows do not overlap: half the time, and the two precisions see the same


def held_out_text():
    """Answers from the last part of the file, which nothing else here reads. The file is cut off: read whole objects."""
    decoder, text = json.JSONDecoder(), SHAREGPT.read_text(encoding="utf-8", errors="replace")
    at, out, size = text.rfind('{"id"', 0, int(len(text) * 0.9)), [], 0
    if at < 0:
        at = text.rfind('"conversations"', 0, int(len(text) * 0.9))
        at = text.rfind("{", 0, at)
    while size < N_CHARACTERS:
        conversation, at = decoder.raw_decode(text, at)
        for turn in conversation["conversations"]:
            out.append(turn["value"])
            size += len(turn["value"])
        at = text.index("{", at)
    return "\n".join(out)[:N_CHARACTERS]


def perplexity(path, precision):
    run = subprocess.run([MILLRACE, "perplexity", "-m", MODEL, "-f", path, "--precision", precision, "-c", str(WINDOW),
                          "--stride", str(WINDOW - 2), "--json"], capture_output=True, check=True)
    return json.loads(run.stdout)


@pytest.mark.skipif(not (MODEL.exists() and SHAREGPT.exists()), reason="needs SmolLM2 and sharegpt.json in models/")
def test_perplexity_of_the_default_precision(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text(held_out_text(), encoding="utf-8")
    exact, ours = perplexity(path, "fp32"), perplexity(path, "auto")
    print(exact, ours)
    assert exact["n_tokens"] == ours["n_tokens"] >= 20_000
    assert abs(ours["perplexity"] / exact["perplexity"] - 1) < 0.01
