"""Ids of other models' vocabularies, where vocabulary-only files lie in ../shared/data/vocab: the test strings that come with
them, random Unicode and real messages against the reference tokenizers."""
import pytest
from reference_tokenizers import (SHAREGPT, SHARED, assert_same_ids, byte_bpe, encode, messages, metadata, sentence_piece,
                                  unicode_strings, word_piece)

FOLDER = SHARED / "data/vocab"
pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason="../shared/data/vocab is not there")
BYTE_LEVEL = ["gpt-2", "llama-bpe", "qwen2", "qwen35", "deepseek-llm", "falcon", "command-r", "starcoder"]
OTHERS = {
    "bert-bge": word_piece,
    "llama-spm": lambda meta: sentence_piece(meta, 2, True),
    "nomic-bert-moe": lambda meta: sentence_piece(meta, 1, True),
}
WITH_STRINGS = [*BYTE_LEVEL, "bert-bge", "llama-spm", "gemma-4"]


def path_of(name):
    path = FOLDER / f"{name}.gguf"
    if not path.exists():
        pytest.skip(f"{path.name} is not there")
    return path


def texts():
    return unicode_strings(20000)[:3000] + (messages(20000)[:600] if SHAREGPT.exists() else [])


@pytest.mark.parametrize("name", WITH_STRINGS)
def test_the_strings_that_come_with_a_vocabulary(name):
    path = path_of(name)
    strings = (FOLDER / f"{name}.gguf.inp").read_bytes().decode().split("\n__ggml_vocab_test__\n")
    want = [[int(i) for i in line.split()] for line in (FOLDER / f"{name}.gguf.out").read_text().split("\n")]
    assert encode(path, strings) == want[:len(strings)]


@pytest.mark.parametrize("name", BYTE_LEVEL)
def test_byte_level_bpe(name):
    path = path_of(name)
    assert_same_ids(texts(), encode(path, texts()), byte_bpe(metadata(path))(texts()))


@pytest.mark.parametrize("name", OTHERS)
def test_other_kinds(name):
    path = path_of(name)
    assert_same_ids(texts(), encode(path, texts()), OTHERS[name](metadata(path))(texts()))


@pytest.mark.parametrize("pre", ["gpt-4o", "tekken", "deepseek-coder", "deepseek-v3", "bloom"])
def test_splitting_rules_without_a_vocabulary_of_their_own(pre, tmp_path):
    """GPT-2's vocabulary under the name of another rule."""
    data = path_of("gpt-2").read_bytes()
    key = b"tokenizer.ggml.pre\x08\x00\x00\x00"
    at = data.index(key) + len(key)
    assert data[at + 8:at + 13] == b"gpt-2"
    path = tmp_path / f"{pre}.gguf"
    path.write_bytes(data[:at] + len(pre).to_bytes(8, "little") + pre.encode() + data[at + 13:])
    assert_same_ids(texts(), encode(path, texts()), byte_bpe(metadata(path_of("gpt-2")), pre)(texts()))
