"""--cache-dir: a prompt's keys and values are found by the next process, and never trusted blindly."""
import json
import subprocess
import time

from program import MILLRACE, PATIENCE_S, SMOLLM2, needs_smollm2, run
from test_bench import model  # noqa: F401 (a fixture)

PROMPT = "The quick brown fox jumps over the lazy dog. " * 5


def answer(folder, *args):
    r = run("run", "-m", SMOLLM2, "--raw", "-p", PROMPT, "-n", 6, "--temp", 0, "--json", "--cache-dir", folder, *args)
    assert r.returncode == 0, r.stderr
    return json.loads(r.stdout), r.stderr


def records(folder):
    return [f for f in folder.iterdir() if len(f.name) == 66 and f.name[64] == "-"]


@needs_smollm2
def test_the_next_process_finds_the_prompt(tmp_path):
    folder = tmp_path / "cache"
    first, _ = answer(folder)
    second, _ = answer(folder)
    assert first["timings"]["cached_n"] == 0
    n = first["timings"]["prompt_n"]
    assert second["timings"]["cached_n"] == (n - 1) // 16 * 16 > 0
    assert second["tokens"] == first["tokens"] and second["text"] == first["text"]
    other, _ = answer(folder, "--kv-type", "int8")  # other bits, other blocks
    assert other["timings"]["cached_n"] == 0


@needs_smollm2
def test_damaged_files_are_told_and_made_again(tmp_path):
    first, _ = answer(tmp_path)
    for f in records(tmp_path):
        f.write_bytes(f.read_bytes()[:-7])
    second, warning = answer(tmp_path)
    assert second["tokens"] == first["tokens"] and second["timings"]["cached_n"] == 0
    assert "damaged files were removed" in warning
    third, warning = answer(tmp_path)
    assert third["tokens"] == first["tokens"] and warning == ""
    assert third["timings"]["cached_n"] > 0


@needs_smollm2
def test_what_a_killed_process_leaves_is_valid(tmp_path):
    plain, _ = answer(tmp_path / "plain")
    folder = tmp_path / "cache"
    load = [MILLRACE, "bench", "--engine", "-m", SMOLLM2, "-c", 256, "--kv-tokens", 256, "--max-running", 1, "--requests", 1000, "--prompt", 100,
            "--gen", 2, "--cache-dir", folder]
    process = subprocess.Popen([str(x) for x in load], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + PATIENCE_S
    while not (folder.exists() and len(records(folder)) > 10):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.02)
    process.kill()
    process.wait()
    kept = len(records(folder))
    again, warning = answer(folder)
    assert again["tokens"] == plain["tokens"] and warning == ""
    assert len(records(folder)) > kept > 10  # its own are beside those
    third, _ = answer(folder)
    assert third["timings"]["cached_n"] > 0


def test_a_folder_that_cannot_be_is_refused(model):
    r = run("run", "-m", model, "--raw", "-p", "x", "-n", 1, "--cache-dir", "/dev/null/x")
    assert r.returncode == 1 and "'/dev/null/x'" in r.stderr


@needs_smollm2
def test_a_pinned_prompt_is_there_for_the_first_request(tmp_path):
    text = tmp_path / "system.txt"
    text.write_text(PROMPT)
    args = ("run", "-m", SMOLLM2, "--raw", "-p", PROMPT + "And then", "-n", 6, "--temp", 0, "--json")
    pinned, plain = run(*args, "--pin-prompt", text), run(*args)
    assert pinned.returncode == plain.returncode == 0, pinned.stderr
    pinned, plain = json.loads(pinned.stdout), json.loads(plain.stdout)
    assert pinned["tokens"] == plain["tokens"]
    assert pinned["timings"]["cached_n"] >= 32 and plain["timings"]["cached_n"] == 0


def test_a_file_to_pin_that_is_missing_is_named(model, tmp_path):
    r = run("run", "-m", model, "--raw", "-p", "t1", "-n", 1, "--pin-prompt", tmp_path / "none.txt")
    assert r.returncode == 1 and "none.txt" in r.stderr
