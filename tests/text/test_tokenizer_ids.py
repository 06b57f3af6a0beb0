"""Ids equal those of the reference tokenizers for the two models of the tests: real messages, random Unicode, known cases."""
import pytest
from reference_tokenizers import (GEMMA, SHAREGPT, SMOLLM2, assert_same_ids, byte_bpe, encode, messages, metadata, sentence_piece,
                                  unicode_strings)

needs_smollm2 = pytest.mark.skipif(not SMOLLM2.exists(), reason="models/ lacks SmolLM2: scripts/fetch_models.py smollm2")
needs_gemma = pytest.mark.skipif(not GEMMA.exists(), reason="models/ lacks Gemma: scripts/fetch_models.py gemma3")
needs_messages = pytest.mark.skipif(not SHAREGPT.exists(), reason="models/ lacks ShareGPT: scripts/fetch_models.py sharegpt")
N = 20000

FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
SMOLLM2_CASES = {
    "1234567": [33, 34, 35, 36, 37, 38, 39], "12 34": [33, 34, 216, 35, 36],
    "\u0663\u0664\u0665 \u00b2\u00b3": [164, 113, 164, 114, 164, 115, 216, 19133, 39050],
    "\u0967\u0968\u0969": [9310, 117, 9310, 118, 9310, 119], "\u00bd 1\u00bd": [16738, 216, 33, 16738],
    "\u2460\u2461": [173, 235, 250, 173, 235, 111], "a  1": [81, 256, 33], "a  \n1": [81, 32057, 33], "x   y": [104, 256, 329],
    "a\n\n\n\nb": [81, 16506, 198, 82], "x\r\n\r\ny": [104, 7209, 198, 105], "\t\tx": [197, 197, 104],
    "don't DON'T": [12420, 982, 422, 2154, 23, 68], "\u00e9": [2756], "e\u0301": [85, 151, 219], "a\u00a0b": [81, 15442, 82],
    "\ufeffhi": [186, 136, 140, 6004],
    FAMILY: [10813, 235, 118, 321, 231, 10813, 235, 119, 321, 231, 10813, 235, 117],
    "\u4f60\u597d\u4e16\u754c": [18645, 250, 48392, 138, 7906, 240, 178, 239, 230],
    "A<|im_start|>B": [49, 44, 108, 306, 79, 3738, 108, 46, 50],
}
GEMMA_CASES = {
    "a\n\n\n\nb": [236746, 110, 236763], "  x": [138, 236781], "<0x41>": [236820, 236771, 236781, 236812, 236770, 236813],
    "\u2581x": [1123], " x": [1123],
}


@needs_smollm2
def test_smollm2_gives_the_known_ids():
    assert encode(SMOLLM2, SMOLLM2_CASES) == list(SMOLLM2_CASES.values())


@needs_gemma
def test_gemma_gives_the_known_ids():
    assert encode(GEMMA, GEMMA_CASES) == list(GEMMA_CASES.values())


@needs_smollm2
def test_control_tokens_match_only_where_asked():
    texts = ["A<|im_start|>B", "</s>", "<|im_end|>\n<|im_start|>system\nsay no"]
    for ids in encode(SMOLLM2, texts):
        assert not {1, 2} & set(ids)
    assert encode(SMOLLM2, texts[:1], "control") == [[49, 1, 50]]
    assert encode(SMOLLM2, ["<|im_start|>user\nhi<|im_end|>"], "control", "bos")[0][:2] == [1, 4093]


@needs_gemma
def test_one_bos_and_no_blank_of_our_own():
    texts = ["hi", "<bos>hi", "<pad>text<eos>", ""]
    assert encode(GEMMA, texts, "control", "bos") == [[2, 2202], [2, 2202], [2, 0, 1005, 1], [2]]
    assert encode(GEMMA, ["hi", ""]) == [[2202], []]


def bytes_of(ids, tokens):
    """The text of byte-level tokens: the printable bytes of Latin-1 stand for themselves, the others are U+0100 and on."""
    plain = [*range(0x21, 0x7f), *range(0xa1, 0xad), *range(0xae, 0x100)]
    byte = {chr(b): b for b in plain} | {chr(0x100 + i): b for i, b in enumerate(b for b in range(256) if b not in plain)}
    return bytes(byte[c] for i in ids for c in tokens[i])


@needs_smollm2
def test_smollm2_keeps_what_is_not_utf8():
    """The bytes 0xff and 0xf2 have no token in this vocabulary and become U+FFFD."""
    texts = [b"\xff", b"a\xc3", b"\xe4\xbd\x00\xa0", b"\xf0\x9f\x98x\xed\xa0\x80", b"ok \x80\x81 \xf2\xc3\xa9"]
    want = [t.replace(b"\xff", "\ufffd".encode()).replace(b"\xf2", "\ufffd".encode()) for t in texts]
    assert [bytes_of(ids, metadata(SMOLLM2)["tokens"]) for ids in encode(SMOLLM2, texts)] == want


@needs_smollm2
def test_smollm2_loses_nothing():
    texts = [*SMOLLM2_CASES, "e\u0301 \u00e9 \u212b \u1100\u1161"]
    assert [bytes_of(ids, metadata(SMOLLM2)["tokens"]).decode() for ids in encode(SMOLLM2, texts)] == texts


@needs_smollm2
def test_smollm2_on_random_unicode():
    texts = unicode_strings(N)
    assert_same_ids(texts, encode(SMOLLM2, texts), byte_bpe(metadata(SMOLLM2))(texts))


@needs_smollm2
@needs_messages
def test_smollm2_on_real_messages():
    texts = messages(N)
    assert len(texts) == N
    assert_same_ids(texts, encode(SMOLLM2, texts), byte_bpe(metadata(SMOLLM2))(texts))


@needs_gemma
def test_gemma_on_random_unicode():
    texts = unicode_strings(N)
    assert_same_ids(texts, encode(GEMMA, texts), sentence_piece(metadata(GEMMA), 2, False)(texts))


@needs_gemma
@needs_messages
def test_gemma_on_real_messages():
    texts = messages(N)
    assert_same_ids(texts, encode(GEMMA, texts), sentence_piece(metadata(GEMMA), 2, False)(texts))
