"""`millrace run`: one answer, its text, its tokens, its end."""
import json
import os
import re
import shutil
import signal
import subprocess
import time

import jsonschema
import pytest
from program import GEMMA, MILLRACE, PATIENCE_S, SMOLLM2, Terminal, needs_gemma, needs_smollm2, run

NUMBER = {"type": "number", "minimum": 0}
COUNT = {"type": "integer", "minimum": 0}
TIMINGS = {"prompt_n": COUNT, "cached_n": COUNT, "prompt_ms": NUMBER, "prompt_per_second": NUMBER, "predicted_n": COUNT,
           "predicted_ms": NUMBER, "predicted_per_second": NUMBER, "ttft_ms": NUMBER, "draft_n": COUNT,
           "draft_n_accepted": COUNT}
ANSWER = {
    "type": "object", "additionalProperties": False, "required": ["text", "tokens", "finish_reason", "timings"],
    "properties": {
        "text": {"type": "string"}, "tokens": {"type": "array", "items": COUNT}, "seed": COUNT,
        "finish_reason": {"enum": ["stop", "length", "cancelled"]},
        "timings": {"type": "object", "additionalProperties": False, "required": list(TIMINGS), "properties": TIMINGS}}}


def ask(*args, model=SMOLLM2, **kwargs):
    r = run("run", "-m", model, "--json", *args, **kwargs)
    assert r.returncode == 0, r.stderr
    answer = json.loads(r.stdout)
    jsonschema.validate(answer, ANSWER)
    assert answer["timings"]["predicted_n"] == len(answer["tokens"])
    return answer


# The first words of the two best answers to the first question differ by 0.08 in their logits: int8 rounding of the first
# positions alone would turn the answer.
@needs_smollm2
@pytest.mark.parametrize("question, precision", [("What is the capital of France?", "fp32"),
                                                 ("What is the capital of France?", "auto"),
                                                 ("Tell me the capital of France.", "auto")])
def test_the_capital_of_france_is_paris(question, precision):
    a = ask("-p", question, "--temp", 0, "--precision", precision, "-n", 60)
    assert "Paris" in a["text"]
    assert a["finish_reason"] == "stop"
    assert a["tokens"][-1] == 2 and "<|im_end|>" not in a["text"]


@needs_smollm2
def test_fusion_changes_no_token():
    args = ["-p", "Name three colours.", "--temp", 0, "-n", 12]
    assert ask(*args, "--fusion", "off")["tokens"] == ask(*args)["tokens"]


@needs_smollm2
def test_the_streamed_text_is_that_of_json():
    args = ["-p", "Name three colours.", "--temp", 0, "-n", 24]
    a = ask(*args)
    r = run("run", "-m", SMOLLM2, *args)
    assert r.stdout == a["text"] + "\n"[a["text"].endswith("\n"):]
    assert "first token after" in r.stderr and "tokens/s" in r.stderr
    assert run("run", "-m", SMOLLM2, *args, "--no-stats").stderr == ""


@needs_smollm2
def test_the_figures_stand_behind_the_answer():
    command = [MILLRACE, "run", "-m", SMOLLM2, "-p", "Hello", "--temp", "0", "-n", "4"]
    r = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True, timeout=PATIENCE_S)
    assert re.search("\nfirst token after .*\n\\Z", r.stdout)


@needs_smollm2
def test_an_answer_that_cannot_be_written_is_a_failure():
    with open("/dev/full", "w") as full:
        command = [MILLRACE, "run", "-m", SMOLLM2, "-p", "Hello", "--temp", "0", "-n", "4"]
        r = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, timeout=PATIENCE_S)
    assert r.returncode == 1 and "could not be written" in r.stderr


@needs_smollm2
def test_prompts_come_from_a_flag_a_file_or_a_pipe(tmp_path):
    file = tmp_path / "prompt.txt"
    file.write_text("Once upon a time")
    want = ask("--raw", "--temp", 0, "-n", 8, "-p", "Once upon a time")["tokens"]
    assert ask("--raw", "--temp", 0, "-n", 8, "--file", file)["tokens"] == want
    assert ask("--raw", "--temp", 0, "-n", 8, input="Once upon a time")["tokens"] == want


def test_a_prompt_that_cannot_be_read_is_told_before_the_model_loads(tmp_path):
    r = run("run", "-m", tmp_path / "none.gguf", "--file", tmp_path / "none.txt")
    assert r.returncode == 1 and r.stdout == "" and r.stderr.count("\n") == 1 and "none.txt" in r.stderr


@needs_smollm2
def test_an_empty_pipe_is_an_error():
    r = run("run", "-m", SMOLLM2, input="")
    assert r.returncode == 1 and r.stderr == "millrace run: the prompt is empty\n"


@needs_smollm2
@pytest.mark.parametrize("temperature", [0, 1])
def test_chunks_and_threads_do_not_change_a_token(temperature):
    args = ["-p", "Write a haiku about rivers, mills and stones. " * 8, "--temp", temperature, "--seed", 11, "-n", 24]
    want = ask(*args)["tokens"]
    for more in (["--prompt-chunk", 1], ["--prompt-chunk", 7], ["--prompt-chunk", 64], ["-t", 1], ["-t", 2]):
        assert ask(*args, *more)["tokens"] == want, more


@needs_smollm2
def test_a_seed_repeats_and_another_one_differs():
    args = ["-p", "Tell me a story.", "--temp", 1.2, "-n", 16]
    first = ask(*args, "-s", 42)
    assert ask(*args, "-s", 42)["tokens"] == first["tokens"]
    assert ask(*args, "-s", 43)["tokens"] != first["tokens"]
    free = ask(*args)
    assert ask(*args)["tokens"] != free["tokens"]
    assert ask(*args, "-s", free["seed"])["tokens"] == free["tokens"]


@needs_smollm2
def test_a_prompt_longer_than_the_context_gives_both_numbers():
    for n, fits in ((62, True), (63, True), (64, False), (300, False)):
        r = run("run", "-m", SMOLLM2, "--raw", "-p", "a" + " a" * (n - 1), "-c", 64, "--json", "--ignore-eos")
        if fits:
            a = json.loads(r.stdout)
            assert a["timings"]["prompt_n"] == n
            assert len(a["tokens"]) == 64 - n and a["finish_reason"] == "length"
        else:
            assert r.returncode == 1 and r.stdout == "" and r.stderr.count("\n") == 1
            assert f"{n} tokens" in r.stderr and "context 64" in r.stderr


@needs_smollm2
def test_the_number_of_tokens_is_kept():
    for n in (0, 1, 5):
        a = ask("--raw", "-p", "One, two,", "-n", n, "--temp", 0, "--ignore-eos")
        assert len(a["tokens"]) == n and a["finish_reason"] == "length"


# Case C06: bytes that never become a character: one U+FFFD for each maximal ill-formed part, none lost at the end.
@needs_smollm2
@pytest.mark.parametrize("token, n, text", [
    (219, 4, "\ufffd" * 4),   # 0x81
    (151, 4, "\ufffd" * 4),   # 0xCC, a lead byte without its second
    (10813, 1, "\ufffd"),     # f0 9f 91, the start of an emoji
    (10813, 3, "\ufffd" * 3),
    (18645, 1, "\ufffd"),     # e4 bd, the start of a Chinese character: case C05, cut by the number of tokens
    (18645, 2, "\ufffd" * 2),
])
def test_forced_bytes_that_are_no_character(token, n, text):
    args = ["--raw", "-p", "hi", "-n", n, "--logit-bias", f"{token}+100", "--repeat-penalty", 1]
    a = ask(*args)
    assert (a["tokens"], a["text"], a["finish_reason"]) == ([token] * n, text, "length")
    assert run("run", "-m", SMOLLM2, *args).stdout == text + "\n"


# Case C05: an answer that is cut inside a character is valid text; what streams is what JSON has.
@needs_smollm2
@pytest.mark.parametrize("n", [1, 2, 3, 4, 6, 9, 13, 40])
def test_characters_of_several_tokens_are_whole_or_one_mark(n):
    whole = "\u4f60\u597d \U0001f468\u200d\U0001f469\u200d\U0001f467!"
    args = ["-p", "hi", "-n", n, "--temp", 0, "--grammar", f'root ::= "{whole}"', "-q"]
    a = ask(*args)
    assert a["text"] == whole or whole.startswith(a["text"].removesuffix("\ufffd"))
    assert (a["text"] == whole) == (n == 40) == (a["finish_reason"] == "stop")
    r = run("run", "-m", SMOLLM2, *args, text=False)
    assert r.stdout.decode() == a["text"] + "\n"


@needs_smollm2
def test_a_cut_inside_a_character_ends_in_one_mark():
    texts = [ask("-p", "hi", "-n", n, "--temp", 0, "--grammar", 'root ::= "\U0001f468"', "-q")["text"] for n in (1, 9)]
    assert texts == ["\ufffd", "\U0001f468"]


# Case C08: a stop string never shows, not even its beginning; what is no stop string is not lost.
@needs_smollm2
@pytest.mark.parametrize("stop, text, finish", [
    (["aa"], "", "stop"),
    (["aaaaa!"], "a" * 6, "length"),
    (["b"], "a" * 6, "length"),
    (["xa", "aaa"], "", "stop"),
])
def test_stop_strings_end_the_answer_before_them(stop, text, finish):
    token = 81  # "a"
    args = ["--raw", "-p", "b", "-n", 6, "--logit-bias", f"{token}+100"]
    for s in stop:
        args += ["--stop", s]
    a = ask(*args)
    assert (a["text"], a["finish_reason"]) == (text, finish)
    assert run("run", "-m", SMOLLM2, *args).stdout == text + "\n"[not text:]


@needs_smollm2
def test_the_end_token_ends_the_answer_unless_told_otherwise():
    args = ["--raw", "-p", "hi", "-n", 3, "--logit-bias", "2+100"]
    a = ask(*args)
    assert (a["tokens"], a["text"], a["finish_reason"]) == ([2], "", "stop")
    a = ask(*args, "--ignore-eos")
    assert len(a["tokens"]) == 3 and 2 not in a["tokens"] and a["finish_reason"] == "length"
    assert ask(*args, "--special")["text"] == "<|im_end|>"


@needs_smollm2
def test_a_bias_outside_the_vocabulary_is_named():
    r = run("run", "-m", SMOLLM2, "-p", "x", "--logit-bias", "99999999-100")
    assert r.returncode == 2 and r.stderr.count("\n") == 1
    assert "--logit-bias" in r.stderr and "99999999" in r.stderr and "49151" in r.stderr


@needs_smollm2
def test_control_tokens_in_a_message_stay_text():
    r = run("run", "-m", SMOLLM2, "-p", "A<|im_start|>B", "-n", 0, "--verbose-prompt", "-q")
    ids = [int(line.split()[0]) for line in r.stderr.splitlines() if line[:6].strip().isdigit()]
    assert ids.count(1) == 3  # system, user, assistant: the template's own
    joined = " ".join(map(str, ids))
    assert "49 44 108 306 79 3738 108 46 50" in joined


@needs_smollm2
@pytest.mark.parametrize("raw", [[], ["--raw"]])
def test_control_tokens_are_read_on_request(raw):
    def starts(*args):
        r = run("run", "-m", SMOLLM2, *raw, "-p", "A<|im_start|>B", "-n", 0, "--verbose-prompt", "-q", *args)
        return r.stderr.count("'<|im_start|>'")

    assert starts("--parse-special") == starts() + 1


@needs_smollm2
def test_the_system_message_reaches_the_prompt():
    r = run("run", "-m", SMOLLM2, "-p", "hi", "--system", "Answer in Latin.", "-n", 0, "--verbose-prompt", "-q")
    assert "'Answer'" in r.stderr.replace(" ", "") and "Latin" in r.stderr


@needs_smollm2
def test_more_threads_than_cpus_run_with_one_warning():
    r = run("run", "-m", SMOLLM2, "-p", "hi", "--temp", 0, "-n", 1, "-q", "-t", 64)
    assert r.returncode == 0 and r.stderr.count("\n") == 1 and "warning: --threads 64" in r.stderr


@needs_smollm2
def test_a_context_beyond_the_training_runs_with_one_warning():
    r = run("run", "-m", SMOLLM2, "-p", "hi", "--temp", 0, "-n", 1, "-q", "-c", 10000)
    assert r.returncode == 0 and r.stderr.count("\n") == 1 and "10000" in r.stderr and "8192" in r.stderr


@needs_smollm2
def test_an_instruction_set_that_is_not_known_is_refused_in_one_line():
    r = run("run", "-m", SMOLLM2, "-p", "hi", "-n", 1, env={"MILLRACE_CPU": "avx9"})
    assert r.returncode != 0 and r.stderr.count("\n") == 1
    assert "MILLRACE_CPU=avx9: unknown level; known are scalar, avx2" in r.stderr


@needs_gemma
def test_a_model_without_a_template_names_both_ways_out():
    r = run("run", "-m", GEMMA, "-p", "hi")
    assert r.returncode == 1 and r.stderr.count("\n") == 1
    assert "--chat-template" in r.stderr and "--raw" in r.stderr


@needs_gemma
def test_gemma_continues_plain_text():
    a = ask("--raw", "-p", "The Eiffel Tower stands in the city of", "--temp", 0, "-n", 4, model=GEMMA)
    assert "Paris" in a["text"]
    assert a["text"].startswith(" ")  # an answer keeps the blank that separates it from its prompt


@needs_gemma
def test_a_built_in_template_serves_a_model_without_one():
    a = ask("--chat-template", "chatml", "-p", "hi", "--temp", 0, "-n", 2, model=GEMMA)
    assert len(a["tokens"]) <= 2


@needs_smollm2
def test_an_unknown_template_lists_those_there_are():
    r = run("run", "-m", SMOLLM2, "-p", "hi", "--chat-template", "nosuch")
    assert r.returncode == 1 and r.stderr.count("\n") == 1
    assert "nosuch" in r.stderr and "chatml" in r.stderr


@needs_smollm2
def test_the_message_of_a_template_is_shown(tmp_path):
    template = tmp_path / "strict.jinja"
    template.write_text("{% if messages[0].role == 'system' %}{{ raise_exception('no system here') }}{% endif %}x")
    r = run("run", "-m", SMOLLM2, "--chat-template", template, "--system", "s", "-p", "hi")
    assert r.returncode == 1 and "no system here" in r.stderr and r.stdout == ""


@pytest.mark.parametrize("content, word", [(None, "no such file"), (b"", "empty"), (b"PK\x03\x04" + bytes(600), "zip"),
                                           (b"\x7fELF" + bytes(600), "ELF"), (b"GGUF", "the file ends here"), (b"hello\n" * 99, "text")])
def test_a_foreign_file_is_called_by_its_name(tmp_path, content, word):
    file = tmp_path / "model.gguf"
    if content is not None:
        file.write_bytes(content)
    r = run("run", "-m", file, "-p", "x")
    assert r.returncode == 1 and r.stdout == "" and r.stderr.count("\n") == 1
    assert "model.gguf" in r.stderr and word in r.stderr


def test_a_folder_is_no_model(tmp_path):
    r = run("run", "-m", tmp_path, "-p", "x")
    assert r.returncode == 1 and r.stderr.count("\n") == 1


def start(*args):
    return subprocess.Popen([MILLRACE, "run", "-m", SMOLLM2, *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE)


@needs_smollm2
def test_ctrl_c_stops_the_answer_and_keeps_what_came():
    p = start("-p", "Count to a thousand.", "--ignore-eos")
    first = os.read(p.stdout.fileno(), 1)
    p.send_signal(signal.SIGINT)
    out, err = p.communicate(timeout=PATIENCE_S)
    assert p.returncode == 130
    assert first + out and b"stopped" in err


@needs_smollm2
def test_ctrl_c_still_gives_json():
    p = start("-p", "Count to a thousand.", "--ignore-eos", "--json", "--verbose-prompt")
    os.read(p.stderr.fileno(), 1)  # the prompt's first token: the model is loaded
    p.send_signal(signal.SIGINT)
    out, _ = p.communicate(timeout=PATIENCE_S)
    answer = json.loads(out)
    jsonschema.validate(answer, ANSWER)
    assert (p.returncode, answer["finish_reason"]) == (130, "cancelled")


@needs_smollm2
def test_ctrl_c_ends_a_program_that_nobody_gives_a_prompt():
    reader, writer = os.pipe()
    p = subprocess.Popen([MILLRACE, "run", "-m", SMOLLM2], stdin=reader, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    os.close(reader)
    time.sleep(1)  # it should have loaded by then; the signal ends it in any case
    p.send_signal(signal.SIGINT)
    out, _ = p.communicate(timeout=PATIENCE_S)
    os.close(writer)
    assert p.returncode in (130, -signal.SIGINT) and out == b""


# A program that was stopped before it loaded anything may have finished loading just before: then once more.
ATTEMPTS = 20


@needs_smollm2
def test_ctrl_c_while_the_model_loads_ends_the_program():
    for _ in range(ATTEMPTS):
        with Terminal("run", "-m", SMOLLM2) as t:
            t.stop_while_it_loads(SMOLLM2)
            t.type("\x03")
            t.go_on()
            if "stopped" in t.expect(r": stopped while it was loaded\r\n|> "):
                assert t.wait() == 130
                return
    raise AssertionError("it never was still loading")


@needs_smollm2
def test_a_bar_shows_how_far_a_slow_load_is():
    for _ in range(ATTEMPTS):
        with Terminal("run", "-m", SMOLLM2, "--raw", "-p", "x", "-n", 0, "-q") as t:
            t.stop_while_it_loads(SMOLLM2)
            time.sleep(0.6)  # longer than a load that needs no bar
            t.go_on()
            assert t.wait() == 0
            if "loading [" in t.output:
                assert re.fullmatch(r"(\rloading \[#* *\] +\d+ %)+\r\x1b\[K(\r\n)?", t.output)
                assert all(len(bar) == 40 for bar in re.findall(r"\[(#* *)\]", t.output))
                done = [int(n) for n in re.findall(r"(\d+) %", t.output)]
                assert done == sorted(done) and done[-1] <= 100
                return
    raise AssertionError("it never was still loading")


# Case C45: a file that is cut while it is read.
@needs_smollm2
def test_a_file_that_shrinks_while_it_loads_is_an_error(tmp_path):
    model = tmp_path / "m.gguf"
    for _ in range(ATTEMPTS):
        shutil.copy(SMOLLM2, model)
        with Terminal("run", "-m", model, "--raw", "-p", "x", "-n", 0, "-q") as t:
            t.stop_while_it_loads(model)
            os.truncate(model, model.stat().st_size // 50)
            t.go_on()
            status = t.wait()
            if status != 0:
                assert status == 1 and re.fullmatch(r"millrace run: '[^\n]*m\.gguf'[^\n]*\r\n", t.output)
                assert re.search("the file became shorter|but the file has|the file ends here", t.output)
                return
    raise AssertionError("it never was still loading")


@needs_smollm2
def test_no_bar_without_a_terminal():
    assert run("run", "-m", SMOLLM2, "--raw", "-p", "x", "-n", 0, "-q").stderr == ""


@pytest.mark.parametrize("model", [pytest.param(SMOLLM2, marks=needs_smollm2), pytest.param(GEMMA, marks=needs_gemma)],
                         ids=["smollm2", "gemma3"])
def test_memory_stays_within_its_bound(model):
    """1.15 times the tensors, the keys and values in use, and 40 MB, at the highest."""
    n_prompt, n_answer = 600, 8
    p = subprocess.Popen([MILLRACE, "run", "-m", model, "--raw", "-p", "a" + " a" * (n_prompt - 1), "-n", str(n_answer), "--ignore-eos"],
                         stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(p.pid, 0)
    p.returncode = os.waitstatus_to_exitcode(status)
    file = json.loads(run("inspect", "--json", model).stdout)
    bound = 1.15 * file["tensor_bytes"] + file["needs"]["kv_bytes_per_token"] * (n_prompt + n_answer) + 40e6
    assert p.returncode == 0 and usage.ru_maxrss * 1024 < bound
