"""The include order of the layers, headers that compile alone, and the formatting of the C files."""
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SRC = ROOT / "src"
# Layers of one group never include each other; a layer includes only what stands before it (docs/architecture.md).
ORDER = [["base"], ["quant"], ["format"], ["text", "cache"], ["kernels"], ["ops"], ["sample", "model"], ["engine", "train"],
         ["measure", "dist"], ["compress"], ["server"], ["cli"]]
LEVEL = {name: i for i, group in enumerate(ORDER) for name in group}
SOURCES = sorted(p for d in ("src", "include", "tests") for p in (ROOT / d).rglob("*.[ch]"))


def test_every_folder_is_a_layer():
    assert {p.name for p in SRC.iterdir() if p.is_dir()} <= set(LEVEL)


def test_includes_go_down_only():
    wrong = []
    for path in SRC.rglob("*.[ch]"):
        layer = path.relative_to(SRC).parts[0]
        for line, included in re.findall(r'^(\s*#\s*include\s+"([^"]+)")', path.read_text(), re.M):
            target = included.split("/")[0]
            if included == "millrace.h" or target == layer:
                continue
            if target not in LEVEL or LEVEL[target] >= LEVEL[layer]:
                wrong.append(f"{path.relative_to(ROOT)}: {line.strip()}")
    assert not wrong, "\n".join(wrong)


def test_file_names_are_unique():
    names = [p.name for p in SRC.rglob("*.[ch]")]
    assert sorted(set(names)) == sorted(names)


def test_headers_compile_alone():
    headers = sorted(SRC.rglob("*.h")) + [ROOT / "include/millrace.h"]
    for header in headers:
        flags = ["-mavx2", "-mfma", "-mf16c"] if "avx2" in header.name else []
        flags += ["-mavx512f", "-mavx512bw", "-mavx512vl", "-mavx512dq", "-mavx512vnni"] if "avx512" in header.name else []
        r = subprocess.run(["gcc", "-std=c17", "-D_GNU_SOURCE", "-fsyntax-only", "-Wall", "-Wextra", *flags, f"-I{SRC}",
                            f"-I{ROOT}/include", "-x", "c", str(header)], capture_output=True, text=True)
        assert r.returncode == 0, r.stderr


@pytest.mark.skipif(not shutil.which("clang-format"), reason="clang-format is not installed")
def test_sources_are_formatted():
    r = subprocess.run(["clang-format", "--dry-run", "--Werror", *map(str, SOURCES)], capture_output=True, text=True)
    assert r.returncode == 0, r.stderr[:4000] + "\nrun `make format`"
