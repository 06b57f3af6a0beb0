"""Masks beside those of the PyPI package llguidance, along texts that obey random schemas; run by hand, no part of the tests.

    pip install llguidance numpy gguf jsonschema pytest
    MILLRACE_BUILD=build/release python3 tests/sample/compare_llguidance.py models/SmolLM2-135M-Instruct.Q4_1.gguf [N]

Prints how many of the masks are equal, and counts the tokens that only one side allows by what explains them. The vocabulary is the
model's ordinary tokens; texts are cut into the longest of them. docs/constraints.md quotes a run."""
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import gguf
import numpy as np
from llguidance import LLMatcher, LLTokenizer, TokenizerWrapper
from llguidance.numpy import allocate_token_bitmask, fill_next_token_bitmask
from random_schemas import Instances, Schemas

TEXT, END = 0, 2
PER_MASK = 40  # tokens that are looked at where two masks differ


def byte_of():
    """The byte that each character of a byte-level vocabulary stands for (Radford et al. 2019)."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [b for b in range(256) if b not in plain]
    return {chr(b): b for b in plain} | {chr(256 + i): b for i, b in enumerate(rest)}


def vocabulary(model):
    """Bytes of each ordinary token; others are empty."""
    fields, of = gguf.GGUFReader(model).fields, byte_of()
    tokens = fields["tokenizer.ggml.tokens"].contents()
    types = fields["tokenizer.ggml.token_type"].contents()
    return [bytes(of[c] for c in t) if kind == 1 and all(c in of for c in t) else b"" for t, kind in zip(tokens, types)]


class Wrapped:
    """What llguidance asks of a tokenizer."""

    def __init__(self, tokens, end, longest):
        self.tokens, self.eos_token_id, self.bos_token_id, self.special_token_ids = tokens, end, None, [end]
        self.longest = longest

    def __call__(self, text):
        return self.longest(text if isinstance(text, bytes) else text.encode())


def explain(before, token, n_theirs):
    if n_theirs == 1:
        return "the only possible text, of which llguidance allows one tokenisation"
    if re.search(rb"\s", token):
        return "blanks between JSON tokens"
    if b"\x7f" in token:
        return "U+007F in strings"
    if b"\\" in token or re.search(rb"\\(u[0-9a-fA-F]{0,3})?$", before):
        return "escapes in strings"
    if re.search(rb"[-+.\deE]$", token) or re.search(rb"[-+.\deE]$", before):
        return "forms of numbers"
    return "other"


def main(model, n):
    pieces = vocabulary(model)
    end = len(pieces)
    ids = {p: i for i, p in reversed(list(enumerate(pieces))) if p}
    most = max(map(len, ids))

    def longest(text):
        out, at = [], 0
        while at < len(text):
            size = next(s for s in range(min(most, len(text) - at), 0, -1) if text[at:at + s] in ids)
            out.append(ids[text[at:at + size]])
            at += size
        return out

    requests = []
    for seed in range(n):
        schema = Schemas(seed).root()
        try:
            value = Instances(schema, seed).make(schema)
        except ValueError:
            continue
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
        requests.append({"kind": "schema", "text": json.dumps(schema), "tokens": [longest(text)]})
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as f:
        for p in pieces:
            f.write(f"{p.hex()} {TEXT}\n" if p else "3c3e 1\n")
        f.write(f"{b'<end>'.hex()} {END}\n")
        f.flush()
        program = [str(Path(os.environ["MILLRACE_BUILD"]) / "tests/constraint_pipe"), f.name]
        lines = subprocess.run(program, input="".join(json.dumps(r) + "\n" for r in requests), capture_output=True, text=True, check=True).stdout
    theirs_tokenizer = LLTokenizer(TokenizerWrapper(Wrapped([*pieces, b"<end>"], end, longest)))
    n_mask = n_equal = n_refused = 0
    why, examples = Counter(), []
    for request, line in zip(requests, lines.splitlines(), strict=True):
        ours = json.loads(line)
        grammar = LLMatcher.grammar_from_json_schema(request["text"])
        matcher = LLMatcher(theirs_tokenizer, grammar)
        if "error" in ours or matcher.is_error():
            n_refused += 1
            continue
        before, bits = b"", allocate_token_bitmask(1, end + 1)
        for token, allowed in zip(request["tokens"][0], ours["masks"][0]):
            fill_next_token_bitmask(matcher, bits)
            theirs = set(np.flatnonzero(np.unpackbits(bits.view(np.uint8), bitorder="little")[:end + 1]).tolist())
            different = sorted(set(allowed) ^ theirs)
            n_mask, n_equal = n_mask + 1, n_equal + (not different)
            for t in different[:PER_MASK]:
                side = "only ours" if t in set(allowed) else "only theirs"
                reason = explain(before, (pieces + [b""])[t], len(theirs))
                why[side, reason] += 1
                if reason == "other" and len(examples) < 10:
                    examples.append((side, before, (pieces + [b"<end>"])[t], request["text"]))
            if not matcher.consume_token(token):
                break
            before += pieces[token]
    print(f"{n_equal} of {n_mask} masks are equal; {n_refused} schemas were refused by one side")
    for (side, reason), count in why.most_common():
        print(f"{count:6d}  {side}: {reason}")
    for example in examples:
        print(*example)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 40)
