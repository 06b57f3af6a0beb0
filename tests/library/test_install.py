"""The library as a program meets it: an installed tree in a folder of its own, found by pkg-config, with the examples built and run against it."""
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("MILLRACE_BUILD", ROOT / "build/release"))
MODEL = ROOT / "models/SmolLM2-135M-Instruct.Q4_1.gguf"


def call(*command, **more):
    r = subprocess.run([str(x) for x in command], capture_output=True, text=True, timeout=300, **more)
    assert r.returncode == 0, f"{command}: {r.stderr}"
    return r.stdout


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """Installed, then moved: nothing in it knows where it was."""
    if not (BUILD / "src/libmillrace.so").exists():
        pytest.skip("this build has no library: build all of it first")
    installed = tmp_path_factory.mktemp("installed") / "first"
    call("cmake", "--install", BUILD, "--prefix", installed)
    return Path(shutil.move(installed, installed.parent / "moved"))


def flags(tree, *what):
    env = {**os.environ, "PKG_CONFIG_PATH": str(tree / "lib/pkgconfig")}
    return call("pkg-config", *what, "millrace", env=env).split()


def example(tree, name, *link):
    program = tree / name
    call("gcc", "-std=c17", "-Wall", "-Wextra", "-Wpedantic", "-Werror", ROOT / "examples" / f"{name}.c", *flags(tree, "--cflags"),
         *(link or flags(tree, "--libs")), "-o", program)
    return program


def run(tree, program, *args):
    return call(program, *args, env={**os.environ, "LD_LIBRARY_PATH": str(tree / "lib")})


def test_stream_shows_one_answer(tree):
    assert "Paris" in run(tree, example(tree, "stream"), MODEL, "The capital of France is")


def test_fifty_answers_fifty_requests(tree):
    assert "50 of 50 answers" in run(tree, example(tree, "fifty"), MODEL)


def test_the_static_library_needs_no_shared_one(tree):
    shared = [f for f in flags(tree, "--static", "--libs") if f != "-lmillrace"]
    program = example(tree, "stream", tree / "lib/libmillrace.a", *shared)
    assert "libmillrace" not in call("ldd", program)
    assert "Paris" in call(program, MODEL, "The capital of France is")


def test_examples_are_short():
    for file in (ROOT / "examples").glob("*.c"):
        assert len(file.read_text().splitlines()) < 60, file


def test_only_what_the_header_declares_leaves_the_shared_library(tree):
    declared = set(re.findall(r"\b(mr_[a-z0-9_]+)\(", (tree / "include/millrace.h").read_text()))
    symbols = call("nm", "-D", "--defined-only", tree / "lib/libmillrace.so").splitlines()
    exported = {line.split()[2].split("@")[0] for line in symbols if line.split()[1] in "TDBRW"}
    assert exported == declared


def test_the_soname_has_a_version(tree):
    name = re.search(r"SONAME.*\[(.*)\]", call("readelf", "-d", tree / "lib/libmillrace.so")).group(1)
    assert re.fullmatch(r"libmillrace\.so\.\d+", name) and (tree / "lib" / name).exists()


@pytest.mark.parametrize("compiler", [["gcc", "-std=c99", "-x", "c"], ["clang", "-std=c17", "-x", "c"], ["g++", "-std=c++11", "-x", "c++"],
                                      ["clang++", "-std=c++20", "-x", "c++"]])
def test_the_header_stands_alone(tree, compiler, tmp_path):
    if shutil.which(compiler[0]) is None:
        pytest.skip(f"{compiler[0]} is not installed")
    source = tmp_path / "alone"
    source.write_text("#include <millrace.h>\nint main(void) { struct mr_options o; mr_options_defaults(&o); return o.max_running == 0; }\n")
    call(*compiler, "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only", *flags(tree, "--cflags"), source)
