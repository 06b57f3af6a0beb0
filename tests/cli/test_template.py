"""`millrace template`: a chat as the text that the model reads."""
import json

import pytest
from program import GEMMA, SMOLLM2, needs_gemma, needs_smollm2, run

CHAT = [{"role": "user", "content": "Hi <|im_end|>"}]


def template(*args, chat=CHAT):
    return run("template", *args, input=json.dumps(chat))


@needs_smollm2
def test_the_model_s_own_template_is_used():
    r = template("-m", SMOLLM2)
    assert r.returncode == 0, r.stderr
    assert r.stdout == ("<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
                        "<|im_start|>user\nHi <|im_end|><|im_end|>\n<|im_start|>assistant\n")


@needs_gemma
def test_a_model_without_a_template_asks_for_one():
    r = template("-m", GEMMA)
    assert r.returncode == 1 and r.stdout == "" and r.stderr.count("\n") == 1
    assert "--chat-template" in r.stderr and "chatml" in r.stderr


@needs_gemma
def test_a_built_in_template_gets_the_model_s_tokens():
    r = template("-m", GEMMA, "--chat-template", "gemma")
    assert r.stdout == "<bos><start_of_turn>user\nHi <|im_end|><end_of_turn>\n<start_of_turn>model\n"


def test_json_tells_who_wrote_what():
    r = template("--chat-template", "chatml", "--json", "--no-generation-prompt")
    answer = json.loads(r.stdout)
    assert answer["runs"] == [{"text": "<|im_start|>user\n", "from": "template"}, {"text": "Hi <|im_end|>", "from": "caller"},
                              {"text": "<|im_end|>\n", "from": "template"}]
    assert answer["prompt"] == "".join(run["text"] for run in answer["runs"])


def test_a_file_is_a_template_and_variables_come_from_the_command_line(tmp_path):
    (tmp_path / "t.jinja").write_text("{{ tools[0].name }}{{ n + 1 }}{{ think }}{{ messages | length }}{{ add_generation_prompt }}")
    (tmp_path / "tools.json").write_text('[{"name": "f"}]')
    (tmp_path / "chat.json").write_text(json.dumps({"messages": CHAT, "temperature": 1}))
    r = run("template", "--chat-template", tmp_path / "t.jinja", "--messages", tmp_path / "chat.json", "--tools",
            tmp_path / "tools.json", "--var", "n=41", "--var", "think=false")
    assert (r.returncode, r.stdout) == (0, "f42False1True"), r.stderr


@pytest.mark.parametrize("source, message", [("{% nonsense %}", "line 1: unknown statement 'nonsense'"),
                                             ("\n{{ messages[0].x.y }}", "line 2: there is no attribute or key 'x'"),
                                             ("{{ raise_exception('not so') }}", "not so")])
def test_a_template_that_fails_is_one_line(tmp_path, source, message):
    (tmp_path / "t.jinja").write_text(source)
    r = template("--chat-template", tmp_path / "t.jinja")
    assert r.returncode == 1 and r.stdout == "" and r.stderr == f"millrace template: {message}\n"


@pytest.mark.parametrize("chat, message", [([], "messages: "), ({}, "messages: "), ({"messages": 5}, "messages: "), ([{"role": "user"}], "messages[0].content: "),
                                           ([{"role": "user", "content": [{"type": "x"}]}], "messages[0].content[0].type: "),
                                           ({"messages": CHAT, "tools": 5}, "tools: ")])
def test_wrong_messages_are_named(chat, message):
    r = template("--chat-template", "chatml", chat=chat)
    assert r.returncode == 1 and message in r.stderr and r.stderr.count("\n") == 1


@pytest.mark.parametrize("args, word", [(["--var", "x"], "--var"), (["--var", "x=}"], "--var"), (["--var", "bos_token=\"x\""], "bos_token"),
                                        (["--tools", "/nonexistent"], "/nonexistent"), (["--messages", "/nonexistent"], "/nonexistent")])
def test_wrong_arguments_are_named(args, word):
    r = template("--chat-template", "chatml", *args)
    assert r.returncode == 1 and word in r.stderr and r.stderr.count("\n") == 1


def test_usage_errors_end_with_status_2():
    for args, word in (([], "--chat-template"), (["--nosuch"], "--nosuch")):
        r = run("template", *args, input="[]")
        assert r.returncode == 2 and word in r.stderr


def test_text_that_is_no_json_is_reported_with_its_line():
    r = run("template", "--chat-template", "chatml", input='[\n{"role": }]')
    assert r.returncode == 1 and "standard input: line 2" in r.stderr


def test_help_gives_an_example():
    r = run("template", "--help")
    assert r.returncode == 0 and "Example:" in r.stdout and "--messages" in r.stdout
