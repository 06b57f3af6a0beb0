#!/usr/bin/env python3
"""Writes the seeds of fuzz_tokenizer to tests/fuzz/corpus/tokenizer: texts for each splitting rule (first byte: the rule,
second: where the second run begins), and small vocabularies of each kind."""
import struct
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "formats"))
from gguf_files import array, header, text  # noqa: E402

CORPUS = Path(__file__).resolve().parent / "corpus/tokenizer"
N_RULES = 13
TEXTS = ["hell hello  hell\n\n x", "don't DON'T we'Ve 1234567 3.14", "\u4f60\u597d\u4e16\u754c \u3042\u30a2 \uac00",
         "\U0001f468\u200d\U0001f469\u200d\U0001f467!", "e\u0301 \u00e9 \u0663\u00b2\u2460\u00bd \u00a0\u3000\u180e\u2028",
         "<|im_start|><tool>\t\r\n  <|pad|>", "abab  ab"]


def string(key, s):
    return text("tokenizer." + key) + struct.pack("<I", 8) + text(s)


def strings(key, values):
    return array("tokenizer.ggml." + key, 8, len(values)) + b"".join(map(text, values))


def numbers(key, kind, code, values):
    return array("tokenizer.ggml." + key, kind, len(values)) + struct.pack(f"<{len(values)}{code}", *values)


def integer(key, value):
    return text("tokenizer.ggml." + key) + struct.pack("<II", 4, value)


def vocabulary(model, tokens, *more):
    values = [string("ggml.model", model), strings("tokens", tokens), *more]
    return header(3, 0, len(values)) + b"".join(values)


TOKENS = ["<unk>", "<s>", "</s>", "<0x41>", "h", "e", "he", "\u2581", "\u2581h", "\u2581he", "s", "a", "<|im_end|>"]
TYPES = numbers("token_type", 5, "i", [2, 3, 3, 6, 1, 1, 1, 1, 1, 1, 1, 1, 4])
SCORES = numbers("scores", 6, "f", [0, 0, 0, 0, -1, -2, -3, -4, -5, -1.5, -7, -8, 0])
MERGES = strings("merges", ["h e", "\u2581 h", "\u2581h e"])
IDS = [integer("bos_token_id", 1), integer("eos_token_id", 2), integer("unknown_token_id", 0)]
CHARSMAP = numbers("precompiled_charsmap", 0, "B", [4, 0, 0, 0, 0, 0, 0, 0, 0])
FILES = {
    "gpt2": vocabulary("gpt2", TOKENS, string("ggml.pre", "smollm"), MERGES, TYPES, *IDS),
    "llama": vocabulary("llama", TOKENS, SCORES, TYPES, *IDS), "gemma4": vocabulary("gemma4", TOKENS, MERGES, TYPES, *IDS),
    "bert": vocabulary("bert", TOKENS, TYPES, *IDS), "t5": vocabulary("t5", TOKENS, SCORES, TYPES, CHARSMAP, *IDS),
    "short_types": vocabulary("llama", [*TOKENS, "x"], SCORES, TYPES), "twice": vocabulary("llama", ["a", "a"], SCORES),
}

if __name__ == "__main__":
    CORPUS.mkdir(parents=True, exist_ok=True)
    for name, content in FILES.items():
        (CORPUS / name).write_bytes(content)
    for i, s in enumerate(TEXTS):
        for rule in range(i % 3, N_RULES, 3):
            (CORPUS / f"text{i}_{rule}").write_bytes(bytes([rule, 5]) + s.encode() + (b"\xff\xf0\x9f" if i % 2 else b""))
