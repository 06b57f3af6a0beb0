"""Time grows linearly with the text, whatever it is made of."""
import base64
import os
import random
import struct
import subprocess

import numpy as np
import pytest
from reference_tokenizers import BUILD, GEMMA, SHARED, SMOLLM2

r = random.Random(1)
TEXTS = {
    "Z": lambda n: b"Z" * n, "underscore": lambda n: b"_" * n, "blank": lambda n: b" " * n, "newline": lambda n: b"\n" * n,
    "cjk": lambda n: "\u4f60".encode() * (n // 3), "mark": lambda n: "\u0301".encode() * (n // 2),
    "emoji": lambda n: "\U0001f600".encode() * (n // 4), "letters": lambda n: bytes(r.choices(b"abcdefghijklmnopqrstuvwxyz", k=n)),
    "base64": lambda n: base64.b64encode(r.randbytes(n * 3 // 4)), "blanks and a letter": lambda n: b" " * (n - 1) + b"x",
    "digits": lambda n: b"1" * n, "ill-formed": lambda n: b"\xff" * n, "crlf": lambda n: b"\r\n" * (n // 2),
    "two marks": lambda n: "\u0301\u0323".encode() * (n // 4), "capitals": lambda n: "\u0416".encode() * (n // 2),
    "blanks and an ideograph": lambda n: b" " * (n - 3) + "\u4f60".encode(),
}
VOCABULARIES = {"smollm2": SMOLLM2, "gemma": GEMMA,
                **{name: SHARED / f"data/vocab/{name}.gguf" for name in ("deepseek-llm", "falcon", "bert-bge", "nomic-bert-moe")}}
SMALL, LARGE, DOUBLINGS = 1 << 16, 1 << 19, 3


def processor_seconds(model, texts):
    """For each text: what else the machine does counts little."""
    data = b"".join(struct.pack("I", len(t)) + t for t in texts)
    r = subprocess.run([BUILD / "tests/encode_lines", model, "time"], input=data, stdout=subprocess.PIPE, check=True)
    return struct.unpack(f"{len(texts)}d", r.stdout)


def growth(vocabulary, names):
    """For each name how much longer a text takes that is twice as long, on the geometric mean; tiny times count as 10 ms."""
    texts = [TEXTS[name](n) for name in names for n in (SMALL, LARGE)]
    times = np.array(processor_seconds(VOCABULARIES[vocabulary], texts)).reshape(-1, 2).clip(min=0.01)
    rates = dict(zip(names, (times[:, 1] / times[:, 0]) ** (1 / DOUBLINGS)))
    if os.environ.get("MILLRACE_TIMES"):
        for name, seconds in zip(names, times[:, 1]):
            print(f"{vocabulary} {name}: {seconds:.3f} s for 512 KB, growth {rates[name]:.2f}")
    return rates


@pytest.mark.parametrize("vocabulary", VOCABULARIES)
def test_time_grows_linearly(vocabulary):
    if not VOCABULARIES[vocabulary].exists():
        pytest.skip(f"{VOCABULARIES[vocabulary].name} is not there")
    slow = growth(vocabulary, list(TEXTS))
    for _ in range(4):
        slow = {name: rate for name, rate in slow.items() if rate > 2.5}
        if slow:
            slow = growth(vocabulary, list(slow))
    assert not {name: rate for name, rate in slow.items() if rate > 2.5}
