"""Time grows linearly with the text, whatever it is made of."""
import base64
import os
import random
import resource
import struct
import subprocess

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
SIZES = [1 << 17, 1 << 18, 1 << 19, 1 << 20]


def processor_seconds(model, texts):
    """Of the child process: what else the machine does counts little."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    data = b"".join(struct.pack("I", len(t)) + t for t in texts)
    subprocess.run([BUILD / "tests/encode_lines", model], input=data, stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.mark.parametrize("vocabulary", VOCABULARIES)
def test_time_grows_linearly(vocabulary):
    """Each doubling takes 2.5 times as long at most, on the geometric mean of three; tiny times count as 10 ms."""
    model = VOCABULARIES[vocabulary]
    if not model.exists():
        pytest.skip(f"{model.name} is not there")
    load = min(processor_seconds(model, []) for _ in range(3))
    slow = {}
    for name, make in TEXTS.items():
        for _ in range(5):
            seconds = [max(processor_seconds(model, [make(n)]) - load, 0.01) for n in (SIZES[0], SIZES[-1])]
            growth = (seconds[1] / seconds[0]) ** (1 / (len(SIZES) - 1))
            if growth <= 2.5:
                break
        else:
            slow[name] = growth
        if os.environ.get("MILLRACE_TIMES"):
            print(f"{vocabulary} {name}: {seconds[1]:.3f} s for 1 MB, growth {growth:.2f}")
    assert not slow
