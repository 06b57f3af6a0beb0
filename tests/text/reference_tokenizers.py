"""Reference tokenizers, built from a GGUF file's vocabulary and the splitting rules of the models' published tokenizer.json
files, and the texts to compare on."""
import json
import os
import random
import re
import struct
import subprocess
import unicodedata
from functools import cache
from pathlib import Path

import sentencepiece
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("MILLRACE_BUILD", ROOT / "build/release"))
SHARED = Path(os.environ.get("MILLRACE_SHARED", ROOT.parent / "shared"))
SMOLLM2 = ROOT / "models/SmolLM2-135M-Instruct.Q4_1.gguf"
GEMMA = ROOT / "models/gemma-3-270m-q4_k_m.gguf"
SHAREGPT = ROOT / "models/sharegpt.json"
CONTROL, USER_DEFINED, BYTE = 3, 4, 6


def encode(model, texts, *words):
    """Our ids of each text; words: "bos", "control"."""
    texts = [t if isinstance(t, bytes) else t.encode() for t in texts]
    data = b"".join(struct.pack("I", len(t)) + t for t in texts)
    r = subprocess.run([BUILD / "tests/encode_lines", model, *words], input=data, capture_output=True)
    assert r.returncode == 0, r.stderr.decode()
    ids, at = [], 0
    while at < len(r.stdout):
        n = struct.unpack_from("I", r.stdout, at)[0]
        ids.append(list(struct.unpack_from(f"{n}i", r.stdout, at + 4)))
        at += 4 + 4 * n
    assert len(ids) == len(texts)
    return ids


def assert_same_ids(texts, got, want):
    wrong = [i for i in range(len(texts)) if got[i] != want[i]]
    assert not wrong, f"{len(wrong)} of {len(texts)} differ, first {ascii(texts[wrong[0]])[:300]}"


SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}


def read_value(data, at, kind):
    """A value of a GGUF file and where it ends; the gguf package takes seconds for a large vocabulary."""
    if kind in SCALARS:
        return struct.unpack_from("<" + SCALARS[kind], data, at)[0], at + struct.calcsize(SCALARS[kind])
    if kind == 8:
        n = struct.unpack_from("<Q", data, at)[0]
        return data[at + 8:at + 8 + n].decode(), at + 8 + n
    kind, n = struct.unpack_from("<IQ", data, at)
    if kind in SCALARS:
        code = f"<{n}{SCALARS[kind]}"
        return struct.unpack_from(code, data, at + 12), at + 12 + struct.calcsize(code)
    values, at = [], at + 12
    for _ in range(n):
        value, at = read_value(data, at, kind)
        values.append(value)
    return values, at


@cache
def metadata(path):
    data = path.read_bytes()
    n_values, at = struct.unpack_from("<Q", data, 16)[0], 24
    found = {}
    for _ in range(n_values):
        key, at = read_value(data, at, 8)
        found[key.removeprefix("tokenizer.ggml.")], at = read_value(data, at + 4, struct.unpack_from("<I", data, at)[0])
    return found


def split(pattern):
    return pre_tokenizers.Split(Regex(pattern), "isolated")


def byte_level(use_regex):
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=use_regex)


def sequence(*patterns):
    return pre_tokenizers.Sequence([*map(split, patterns), byte_level(False)])


CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
TAIL = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
CASED = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+END"
         r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*END")
DEEPSEEK_LETTERS = (
    r"A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-\u02af\u0370-\u0373\u0376\u0377"
    r"\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1\u03a3-\u03f5\u03f7-\u0481\u048a-\u052f\u0531-\u0556"
    r"\u10a0-\u10c5\u13a0-\u13f5\u13f8-\u13fd\u1c90-\u1cba\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-\u1d77\u1d79-\u1d9a\u1e00-\u1f15"
    r"\u1f18-\u1f1d\u1f20-\u1f45\u1f48-\u1f4d\u1f50-\u1f57\u1f59\u1f5b\u1f5d\u1f5f-\u1f7d\u1f80-\u1fb4\u1fb6-\u1fbc\u1fbe"
    r"\u1fc2-\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-\u1fdb\u1fe0-\u1fec\u1ff2-\u1ff4\u1ff6-\u1ffc\u2102\u2107\u210a-\u2113"
    r"\u2115\u2119-\u211d\u2124\u2126\u2128\u212a-\u212d\u212f-\u2134\u2139\u213c-\u213f\u2145-\u2149\u214e\u2183\u2184"
    r"\u2c00-\u2c7b\u2c7e-\u2ce4\u2ceb-\u2cee\u2cf2\u2cf3\ua640-\ua66d\ua680-\ua69b\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e"
    r"\uab70-\uabbf\ufb00-\ufb06\ufb13-\ufb17\uff21-\uff3a\uff41-\uff5a\U00010400-\U0001044f\U000104b0-\U000104d3"
    r"\U000104d8-\U000104fb\U00010c80-\U00010cb2\U00010cc0-\U00010cf2\U000118a0-\U000118df\U0001e900-\U0001e943"
).encode().decode("unicode_escape")
CJK_AND_HANGUL = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"
DIGITS = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), byte_level(True)])
QWEN2 = sequence(CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}" + TAIL)
SPLITS = {
    "gpt-2": byte_level(True), "smollm": DIGITS, "starcoder": DIGITS, "command-r": DIGITS, "qwen2": QWEN2,
    "llama-bpe": sequence(CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}" + TAIL),
    "qwen35": sequence(CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*"
                                      r"|\s*[\r\n]+|\s+(?!\S)|\s+"),
    "gpt-4o": sequence(CASED.replace("END", CONTRACTIONS + "?") + r"|\p{N}{1,3}" + TAIL.replace(r"[\r\n]*", r"[\r\n/]*")),
    "tekken": sequence(CASED.replace("END", "") + r"|\p{N}" + TAIL.replace(r"[\r\n]*", r"[\r\n/]*")),
    "deepseek-llm": pre_tokenizers.Sequence(
        [split("[\r\n]"), split(rf"\s?[{DEEPSEEK_LETTERS}]+"), split("\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+"),
         split(r"\s+$"), split(CJK_AND_HANGUL), pre_tokenizers.Digits(individual_digits=True), byte_level(False)]),
    "deepseek-coder": pre_tokenizers.Sequence(
        [split("[\r\n]"), split(r"\s?\p{L}+"), split(r"\s?\p{P}+"), split(CJK_AND_HANGUL),
         pre_tokenizers.Digits(individual_digits=True), byte_level(False)]),
    "deepseek-v3": sequence(
        r"\p{N}{1,3}", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
        "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
        "| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"),
    "falcon": pre_tokenizers.Sequence(
        [pre_tokenizers.Punctuation("contiguous"), byte_level(True), pre_tokenizers.Digits(individual_digits=False),
         split("[0-9][0-9][0-9]")]),
    "bloom": sequence(" ?[^(\\s|[.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c])]+"),
}
WHOLE_PIECE_FIRST = {"llama-bpe", "tekken"}


def byte_bpe(meta, pre=None):
    """Byte-level BPE; pre: another splitting rule than the file's."""
    pre = pre or meta["pre"]
    vocabulary = {token: i for i, token in enumerate(meta["tokens"])}
    merges = [tuple(m.split(" ")) for m in meta["merges"]]
    t = Tokenizer(models.BPE(vocabulary, merges, ignore_merges=pre in WHOLE_PIECE_FIRST))
    t.pre_tokenizer = SPLITS[pre]
    t.add_tokens([AddedToken(s, normalized=False) for s, kind in zip(meta["tokens"], meta["token_type"])
                  if kind == USER_DEFINED and not s.startswith("<|")])
    return lambda texts: [e.ids for e in t.encode_batch(texts, add_special_tokens=False)]


def word_piece(meta):
    """BERT, uncased. The file writes the beginning of a word as U+2581 and leaves out the ## before the rest."""
    def published(s):
        return s[1:] if s.startswith("\u2581") else s if s.startswith("[") and s.endswith("]") else "##" + s
    vocabulary = {published(s): i for i, s in enumerate(meta["tokens"])}
    t = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]", max_input_chars_per_word=100))
    t.normalizer = normalizers.BertNormalizer(lowercase=True)
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return lambda texts: [e.ids for e in t.encode_batch(texts, add_special_tokens=False)]


def varint(n):
    out = b""
    while n > 127:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


def number(field, n):
    return varint(field << 3) + varint(n)


def blob(field, b):
    return varint(field << 3 | 2) + varint(len(b)) + b


def sentence_piece(meta, kind, space_prefix):
    """SentencePiece's own library over the vocabulary, as a serialised ModelProto; kind: 1 Unigram, 2 BPE."""
    types = list(meta["token_type"])
    types[meta["unknown_token_id"]] = 2
    pieces = b"".join(
        blob(1, blob(1, s.replace(" ", "\u2581").encode()) + varint(2 << 3 | 5) + struct.pack("<f", score) + number(3, t))
        for s, score, t in zip(meta["tokens"], meta["scores"], types))
    trainer = number(3, kind) + number(35, BYTE in types) + number(40, meta["unknown_token_id"])
    normalizer = (blob(2, bytes(meta.get("precompiled_charsmap", []))) + number(3, space_prefix) +
                  number(4, meta.get("remove_extra_whitespaces", False)) + number(5, 1))
    t = sentencepiece.SentencePieceProcessor()
    t.LoadFromSerializedProto(pieces + blob(2, trainer) + blob(3, normalizer))
    return t.encode


@cache
def messages(n, longest=1500):
    """The first n messages of at most `longest` characters in the ShareGPT file, which is cut off at its end: whole objects
    until the cut."""
    text = SHAREGPT.read_text(encoding="utf-8")
    between, decoder = re.compile(r"[\s,]*"), json.JSONDecoder()
    found, at = [], text.index("[") + 1
    while len(found) < n:
        try:
            conversation, at = decoder.raw_decode(text, between.match(text, at).end())
        except ValueError:
            break
        found += [turn["value"] for turn in conversation["conversations"] if len(turn["value"]) <= longest]
    return found[:n]


@cache
def unicode_strings(n, seed=14):
    """Random strings of assigned characters of Unicode 14: of all, of the first blocks, of ASCII with odd blanks, and of
    what contractions and digits are made of."""
    r = random.Random(seed)
    assert unicodedata.unidata_version >= "14"
    known = unicodedata if unicodedata.unidata_version == "14.0.0" else unicodedata.ucd_3_2_0
    every = [c for c in range(0x110000) if known.category(chr(c)) not in ("Cn", "Cs", "Co")]
    blanks = [0x20, 0x9, 0xa, 0xd, 0xa0, 0x2003, 0x3000, 0x85, 0x180e, 0x200b, 0x200d, 0x301, 0x323, 0x17f, 0x27]
    sources = [every, [c for c in every if c < 0x3000], [*range(32, 127), *blanks], [*blanks, *b"0123456789stremvdlSTREMVDL'"]]
    strings = []
    for _ in range(n):
        source, s = r.choice(sources), []
        for _ in range(r.randrange(1, 24)):
            p = r.random()
            s.append(r.choice(blanks) if p < .2 else r.randrange(32, 127) if p < .3 else s[-1] if p < .35 and s else r.choice(source))
        strings.append("".join(map(chr, s)))
    return strings
