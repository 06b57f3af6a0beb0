"""`millrace key`: the line for the keys file, and the key, which is in no file."""
import hashlib
import re

import pytest
from program import run


def test_the_line_is_the_hash_of_the_key_that_is_shown_once():
    r = run("key", "alice", "--requests-per-minute", "60", "--models", "a,b")
    assert r.returncode == 0
    name, digest, *limits = r.stdout.split()
    token = r.stderr.strip()
    method, salt, hexdigest = digest.split(":")
    assert (name, method, limits) == ("alice", "sha256", ["requests_per_minute=60", "models=a,b"])
    assert hashlib.sha256(bytes.fromhex(salt) + token.encode()).hexdigest() == hexdigest
    assert re.fullmatch(r"mr-[A-Za-z0-9_-]{48}", token)


def test_a_key_that_exists_is_hashed_from_standard_input():
    r = run("key", "bob", "--stdin", input="secret\n")
    assert r.returncode == 0 and r.stderr == "" and "secret" not in r.stdout
    _, salt, hexdigest = r.stdout.split()[1].split(":")
    assert hashlib.sha256(bytes.fromhex(salt) + b"secret").hexdigest() == hexdigest


@pytest.mark.parametrize("arguments", [["a b"], [""], ["x" * 65], ["a", "--concurrency", "0"], ["a", "--models", "x y"], []])
def test_wrong_arguments_are_told(arguments):
    r = run("key", *arguments)
    assert r.returncode == 2 and r.stdout == "" and r.stderr.count("\n") == 1
