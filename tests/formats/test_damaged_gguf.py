"""A damaged or foreign model file ends in one line that names the file and the reason: no signal, no memory, no hang."""
import json
import os
import shutil
import struct
import subprocess

import pytest

from gguf_files import MILLRACE, SMOLLM2, array, header, run, tensor, text, with_data, write_model

F32, F16, Q8_0, I8 = 0, 1, 8, 24
U32, STRING, ARRAY = 4, 8, 9

HEADERS = {
    "only the magic": (b"GGUF", "the file ends here"),
    "24 bytes of counts": (header(3, 2**62, 2**62), "4611686018427387904 tensors"),
    "n_kv 2^62": (header(3, 0, 2**62), "4611686018427387904 keys"),
    "key length 2^48": (header(3, 0, 1) + struct.pack("<Q", 2**48) + bytes(32), "key of 281474976710656 bytes"),
    "string length 2^62": (header(3, 0, 1) + text("k") + struct.pack("<IQ", STRING, 2**62) + bytes(32), "string of 4611686"),
    "array of 2^62 u32": (header(3, 0, 1) + array("k", U32, 2**62) + bytes(32), "4611686018427387904 values of type u32"),
    "array of 2^63 u32": (header(3, 0, 1) + array("k", U32, 2**63) + bytes(32), "9223372036854775808 values of type u32"),
    "array of arrays": (header(3, 0, 1) + array("k", ARRAY, 2) + bytes(64), "an array of arrays"),
    "value type 13": (header(3, 0, 1) + text("k") + struct.pack("<I", 13) + bytes(32), "unknown value type 13"),
    **{f"version {v}": (header(v), "version") for v in (0, 1, 4, 2**31)},
}

SHAPES = {
    "2^62 x 8": ([2**62, 8], F32, 0, None),
    "2^63-1 x 2": ([2**63 - 1, 2], I8, 0, None),
    "2^63-1 x 2 f16": ([2**63 - 1, 2], F16, 0, None),
    "four times 2^32-1": ([2**32 - 1, 2**32 - 1, 2**32 - 1, 2], F32, 0, None),
    "0 x 4": ([0, 4], F32, 0, None),
    "no dimension": ([], F32, 0, 0),
    "5 dimensions": ([1] * 5, F32, 0, 5),
    "9 dimensions": ([1] * 9, F32, 0, 9),
    "2^32-1 dimensions": ([1] * 4, F32, 0, 2**32 - 1),
    "type 9999": ([32], 9999, 0, None),
    "q8_0 with 33 columns": ([33, 4], Q8_0, 0, None),
    "offset 2^40": ([16], F32, 2**40, None),
    "offset not aligned": ([16], F32, 4, None),
    "offset and size wrap": ([16], F32, 2**64 - 32, None),
}

FOREIGN = {
    "empty": (b"", "an empty file"),
    "safetensors": (struct.pack("<Q", 16) + b'{"__metadata__":{}}', "a safetensors file"),
    "zip": (b"PK\3\4" + bytes(26) + b"archive/data.pkl", "a PyTorch checkpoint"),
    "elf": (b"\x7fELF\2\1\1", "an ELF program"),
    "html": (b"<!DOCTYPE html><html>404</html>", "an HTML page"),
    "text": (b"hello world\n", "a text file"),
    "gzip": (b"\x1f\x8b\x08\0", "a gzip archive"),
    "ggml": (b"tjgg\3\0\0\0", "an old GGML file"),
    "lfs": (b"version https://git-lfs.github.com/spec/v1\n", "a Git LFS pointer"),
}


def refused(path):
    """The error line of inspect; the process ended by itself, within a few hundred MB."""
    p = subprocess.Popen([MILLRACE, "inspect", str(path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out, err = p.stdout.read(), p.stderr.read().decode()
    _, status, usage = os.wait4(p.pid, 0)
    p.returncode = os.waitstatus_to_exitcode(status)
    assert p.returncode == 1, (p.returncode, err)
    assert out == b"" and err.count("\n") == 1 and str(path) in err
    assert usage.ru_maxrss < 300 * 1024, "kilobytes"
    return err


@pytest.mark.parametrize("name", HEADERS)
def test_lengths_and_counts_are_not_trusted(name, tmp_path):
    data, reason = HEADERS[name]
    (tmp_path / "m.gguf").write_bytes(data)
    assert reason in refused(tmp_path / "m.gguf")


@pytest.mark.parametrize("name", SHAPES)
def test_shapes_and_offsets_are_checked(name, tmp_path):
    dims, kind, offset, n_dims = SHAPES[name]
    (tmp_path / "m.gguf").write_bytes(with_data(header(3, 1) + tensor("blk.0.w", dims, kind, offset, n_dims), 4096))
    assert "tensor 'blk.0.w'" in refused(tmp_path / "m.gguf")


def test_overlapping_tensors_are_refused(tmp_path):
    head = header(3, 2) + tensor("a", [16], F32, 0) + tensor("b", [16], F32, 32)
    (tmp_path / "m.gguf").write_bytes(with_data(head, 128))
    assert "tensor 'b'" in refused(tmp_path / "m.gguf") and "overlaps tensor 'a'" in refused(tmp_path / "m.gguf")


@pytest.mark.parametrize("name", FOREIGN)
def test_a_foreign_file_is_called_by_its_name(name, tmp_path):
    data, kind = FOREIGN[name]
    (tmp_path / "m.gguf").write_bytes(data)
    assert f"not a GGUF file but {kind}" in refused(tmp_path / "m.gguf")


def test_a_missing_file_and_a_folder(tmp_path):
    assert "no such file" in refused(tmp_path / "none.gguf")
    assert "a directory" in refused(tmp_path)


def test_a_pipe_that_nobody_writes_to(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    assert "not a regular file" in refused(tmp_path / "pipe")


@pytest.mark.skipif(not SMOLLM2.exists(), reason="no SmolLM2 in models/: make model")
def test_a_real_model_cut_short(tmp_path):
    path = tmp_path / "cut.gguf"
    shutil.copy(SMOLLM2, path)
    size = path.stat().st_size
    for keep in (size - 1, size * 999 // 1000, size // 2, size // 10):
        os.truncate(path, keep)
        assert "needs" in refused(path) and "but the file has" in refused(path)


def test_every_cut_of_a_small_model(tmp_path):
    write_model(tmp_path / "m.gguf")
    whole = (tmp_path / "m.gguf").read_bytes()
    for n in range(0, len(whole), 1 + len(whole) // 40):
        (tmp_path / "cut.gguf").write_bytes(whole[:n])
        refused(tmp_path / "cut.gguf")


def test_a_key_with_a_zero_byte_is_shown_whole(tmp_path):
    (tmp_path / "m.gguf").write_bytes(header(3, 0, 1) + text("a\0b") + struct.pack("<IB", 0, 7))
    assert json.loads(run(MILLRACE, "inspect", "--json", tmp_path / "m.gguf").stdout)["metadata"] == {"a\0b": 7}
    assert "a\\x00b" in run(MILLRACE, "inspect", tmp_path / "m.gguf").stdout


def test_a_hostile_key_does_not_reach_the_terminal(tmp_path):
    (tmp_path / "m.gguf").write_bytes(header(3, 0, 1) + text("a\x1b[2Jb") + struct.pack("<I", 8) + text("c\x1b[31m\r\n"))
    for option in ([], ["--json"]):
        r = run(MILLRACE, "inspect", tmp_path / "m.gguf", *option)
        assert r.returncode == 0 and "\x1b" not in r.stdout and "\r" not in r.stdout


@pytest.mark.parametrize("arguments", [[], ["--wrong"], ["a", "b"], ["--json=1", "a"]])
def test_wrong_usage_is_status_2_and_one_line(arguments):
    r = run(MILLRACE, "inspect", *arguments)
    assert r.returncode == 2 and r.stdout == "" and r.stderr.count("\n") == 1


def test_help_has_an_example():
    r = run(MILLRACE, "inspect", "--help")
    assert r.returncode == 0 and "Example:" in r.stdout and "millrace inspect" in r.stdout
