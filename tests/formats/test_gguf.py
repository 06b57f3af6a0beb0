"""The reader and writer against those of the PyPI package gguf, in both directions, and split files."""
import json
import resource
import shutil

import pytest
from gguf import GGUFReader

from gguf_files import BUILD, MILLRACE, SMOLLM2, contents, run, write_model


def copy(source, target, **kwargs):
    return run(BUILD / "tests/gguf_copy", source, target, **kwargs)


def inspect(path):
    r = run(MILLRACE, "inspect", "--json", path)
    assert r.returncode == 0, r.stderr
    return json.loads(r.stdout)


def test_a_copy_reads_alike(tmp_path):
    write_model(tmp_path / "a.gguf")
    assert copy(tmp_path / "a.gguf", tmp_path / "b.gguf").returncode == 0
    assert contents([tmp_path / "a.gguf"]) == contents([tmp_path / "b.gguf"])
    assert (tmp_path / "a.gguf").read_bytes() == (tmp_path / "b.gguf").read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.gguf", "b.gguf"]


@pytest.mark.skipif(not SMOLLM2.exists(), reason="no SmolLM2 in models/: make model")
def test_a_copy_of_a_real_model_has_the_same_bytes(tmp_path):
    assert copy(SMOLLM2, tmp_path / "b.gguf").returncode == 0
    assert (tmp_path / "b.gguf").read_bytes() == SMOLLM2.read_bytes()


def test_inspect_shows_what_the_package_reads(tmp_path):
    write_model(tmp_path / "a.gguf")
    got, reader = inspect(tmp_path / "a.gguf"), GGUFReader(tmp_path / "a.gguf")
    values = {k: f.contents() for k, f in reader.fields.items() if not k.startswith("GGUF.")}
    assert list(got["metadata"]) == list(values)
    assert got["metadata"].pop("t.u64") == str(values.pop("t.u64"))  # beyond what JSON readers keep exactly
    assert got["metadata"] == values
    assert got["version"] == 3 and got["file_bytes"] == (tmp_path / "a.gguf").stat().st_size
    assert got["tensors"] == [{"name": t.name, "type": t.tensor_type.name.lower(), "shape": t.shape.tolist(),
                               "bytes": t.n_bytes, "offset": t.data_offset, "split": 0, "kernel": None}
                              for t in reader.tensors]
    assert "llama.context_length" in got["needs"]["error"]  # no model that runs, and inspect says why


@pytest.fixture
def split(tmp_path):
    """The small model in three files, the first without tensors."""
    write_model(tmp_path / "m.gguf", split_max_tensors=2, small_first_shard=True)
    files = sorted(tmp_path.glob("m-*.gguf"))
    assert [f.name for f in files] == [f"m-0000{i}-of-00003.gguf" for i in (1, 2, 3)]
    return files


def test_split_files_are_read_as_one(split, tmp_path):
    got = inspect(split[0])
    assert got["files"] == 3 and got["file_bytes"] == sum(f.stat().st_size for f in split)
    assert [t["split"] for t in got["tensors"]] == [1, 1, 2, 2]
    assert copy(split[0], tmp_path / "copy.gguf").returncode == 0
    write_model(tmp_path / "whole.gguf")
    assert contents([tmp_path / "copy.gguf"]) == contents([tmp_path / "whole.gguf"])


def test_split_faults_are_named(split, tmp_path):
    def error(path):
        r = run(MILLRACE, "inspect", path)
        assert r.returncode == 1 and r.stderr.count("\n") == 1
        return r.stderr

    assert "open the first part, which ends in '-00001-of-00003.gguf'" in error(split[1])
    shutil.copy(split[0], tmp_path / "other.gguf")
    assert "its name does not end in '-00001-of-00003.gguf'" in error(tmp_path / "other.gguf")
    saved = split[2].read_bytes()
    split[2].write_bytes(saved[:-100])
    assert "m-00003-of-00003.gguf': tensor 'cube'" in error(split[0])
    shutil.copy(split[1], split[2])
    assert "is number 1 of 3 files, not 2 of 3" in error(split[0])
    split[2].unlink()
    assert "m-00003-of-00003.gguf': no such file" in error(split[0])


def test_a_failed_copy_leaves_no_file(tmp_path):
    write_model(tmp_path / "a.gguf")
    whole = (tmp_path / "a.gguf").read_bytes()
    (tmp_path / "cut.gguf").write_bytes(whole[:-1])
    r = copy(tmp_path / "cut.gguf", tmp_path / "b.gguf")
    assert r.returncode == 1 and "tensor 'cube'" in r.stderr
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.gguf", "cut.gguf"]


def test_a_full_disk_leaves_no_file(tmp_path):
    write_model(tmp_path / "a.gguf")
    r = copy(tmp_path / "a.gguf", tmp_path / "b.gguf", restore_signals=False,  # SIGXFSZ stays ignored
             preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (2048, 2048)))
    assert r.returncode == 1 and "cannot write" in r.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["a.gguf"]
