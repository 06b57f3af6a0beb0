"""A GGUF file with nothing but a vocabulary of bytes and one merge, for models that tests make with `millrace init`."""
import gguf


def byte_characters():
    """The printable characters that byte-level BPE writes for the bytes 0 to 255 (GPT-2's encoder)."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    table = {b: chr(b) for b in plain}
    for i, b in enumerate(b for b in range(256) if b not in table):
        table[b] = chr(256 + i)
    return [table[b] for b in range(256)]


def write(path, more=()):
    control = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", *more]
    tokens = [*byte_characters(), "th", *control]
    w = gguf.GGUFWriter(path, "llama")
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre("smollm")
    w.add_token_list(tokens)
    w.add_token_types([gguf.TokenType.NORMAL] * 257 + [gguf.TokenType.CONTROL] * len(control))
    w.add_token_merges(["t h"])
    w.add_eos_token_id(259)
    w.add_bos_token_id(257)
    w.add_add_bos_token(False)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    return path
