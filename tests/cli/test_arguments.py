"""Options: help with an example everywhere; a wrong one ends with status 2 and one line that names it."""
import re

import pytest
from program import run

COMMANDS = re.findall(r"^  ([a-z]+) ", run("--help").stdout, re.M)

WRONG = [
    (["--foo"], ["--foo"]),
    (["--foo=3"], ["--foo"]),
    (["-Z"], ["-Z"]),
    (["-qZ"], ["-Z"]),
    (["--temp"], ["--temp", "value"]),
    (["-n"], ["-n", "value"]),
    (["--json=yes"], ["--json", "no value"]),
    (["--t"], ["--t", "ambiguous"]),
    (["stray"], ["stray"]),
    (["--temp", "-1"], ["--temp", "0 to 100"]),
    (["--temp", "hot"], ["--temp", "hot", "0 to 100"]),
    (["--temp", "nan"], ["--temp", "0 to 100"]),
    (["--temperature", "101"], ["--temperature", "0 to 100"]),
    (["--top-k", "-1"], ["--top-k", "0 to 2147483647"]),
    (["--top-k", "1.5"], ["--top-k"]),
    (["--top-k", "99999999999999999999"], ["--top-k"]),
    (["--top-p", "1.01"], ["--top-p", "0 to 1"]),
    (["--min-p", "-0.1"], ["--min-p", "0 to 1"]),
    (["--typical", "2"], ["--typical", "0 to 1"]),
    (["--repeat-penalty", "0"], ["--repeat-penalty", "0.01 to 100"]),
    (["--repeat-last-n", "-2"], ["--repeat-last-n", "-1 to"]),
    (["--presence-penalty", "101"], ["--presence-penalty", "-100 to 100"]),
    (["--frequency-penalty", "inf"], ["--frequency-penalty", "-100 to 100"]),
    (["-s", "-2"], ["--seed", "-1 to"]),
    (["--logit-bias", "AI-100"], ["--logit-bias", "AI-100"]),
    (["--logit-bias", "-3+5"], ["--logit-bias", "-3+5"]),
    (["--logit-bias", "10+1e9"], ["--logit-bias", "-100 to 100"]),
    (["--logit-bias", "10=x"], ["--logit-bias", "10=x"]),
    (["--logit-bias", "4294967297+1"], ["--logit-bias"]),
    (["-n", "-2"], ["--n-predict", "-1 to"]),
    (["--max-tokens", "x"], ["--max-tokens", "-1 to"]),
    (["--threads", "0"], ["--threads", "1 to 1024"]),
    (["-t", "two"], ["--threads", "1 to 1024"]),
    (["--precision", "int3"], ["--precision", "int3", "fp32", "int8"]),
    (["-c", "-1"], ["--ctx-size", "0 to"]),
    (["--prompt-chunk", "0"], ["--prompt-chunk", "1 to 65536"]),
    (["--prompt", "a", "--file", "b"], ["--prompt", "--file"]),
    (["--raw", "--system", "s", "-p", "x"], ["--system", "--raw"]),
    (["--raw", "--chat-template", "chatml", "-p", "x"], ["--chat-template", "--raw"]),
    (["-p", "x", "--stop", ""], ["--stop", "1 to 4096"]),
    (["-p", "x", "--stop", "a" * 4097], ["--stop", "4097", "1 to 4096"]),
    (["-p", "x"], ["--model"]),
]


@pytest.mark.parametrize("args, words", WRONG, ids=lambda v: " ".join(v))
def test_a_wrong_option_gives_one_line_that_names_it(args, words):
    r = run("run", *args)
    assert r.returncode == 2
    assert r.stdout == ""
    assert r.stderr.startswith("millrace run: ") and r.stderr.count("\n") == 1
    for word in words:
        assert word in r.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(command):
    for flag in ("--help", "-h"):
        r = run(command, flag)
        assert r.returncode == 0
        assert r.stdout.startswith(f"Usage: millrace {command}")
        assert f"Example:\n  millrace {command}" in r.stdout
        assert r.stdout.endswith("\n") and r.stderr == ""


@pytest.mark.parametrize("command", COMMANDS)
def test_help_with_a_command_is_that_command_s(command):
    r = run("help", command)
    assert (r.returncode, r.stdout) == (0, run(command, "--help").stdout)
    r = run("help", "nothing")
    assert r.returncode == 2 and "'nothing'" in r.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_refuses_an_unknown_option(command):
    r = run(command, "--no-such-option")
    assert (r.returncode, r.stderr) == (2, f"millrace {command}: unknown option '--no-such-option'\n")


def test_an_unknown_command_is_named():
    r = run("rum")
    assert r.returncode == 2 and "'rum'" in r.stderr and r.stderr.count("\n") == 1


def test_without_a_command_the_list_is_shown():
    r = run()
    assert r.returncode == 2 and "Commands:" in r.stderr


def test_hostile_bytes_in_an_option_do_not_reach_the_terminal():
    r = run("run", "--precision", "\x1b[31mred")
    assert r.returncode == 2 and "\x1b" not in r.stderr
