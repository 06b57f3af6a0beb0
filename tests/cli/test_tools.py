"""`millrace run --tools`: calls out of a real model: complete only when they are."""
import json
import subprocess

import jsonschema
import pytest
from program import MILLRACE, SMOLLM2

pytestmark = pytest.mark.skipif(not SMOLLM2.exists(), reason="no SmolLM2 in models/: make model")
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 12},
                                               "day": {"type": "string", "maxLength": 12}},
              "required": ["city", "day"], "additionalProperties": False}
TOOLS = [{"type": "function", "function": {"name": "forecast", "parameters": PARAMETERS}},
         {"type": "function", "function": {"name": "now", "parameters": {"type": "object"}}}]


def run(tmp_path, *options, tools=TOOLS):
    path = tmp_path / "tools.json"
    path.write_text(json.dumps(tools) if not isinstance(tools, str) else tools)
    return subprocess.run([MILLRACE, "run", "-m", SMOLLM2, "-p", "What will the weather be in Paris on Monday?", "--temp", "0",
                           "--tools", path, *options], capture_output=True, text=True)


def answer(tmp_path, *options):
    done = run(tmp_path, "--json", *options)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("format", ["json", "hermes", "mistral"])
def test_a_call_is_complete_or_the_answer_was_cut(format, tmp_path):
    """C39: every budget gives the beginning of the same call, and only the whole one counts."""
    options = ("--tool-choice", "forecast", "--tool-format", format, "--no-parallel-tool-calls")
    whole = answer(tmp_path, *options, "-n", "100")
    call, = whole["tool_calls"]
    assert whole["finish_reason"] == "tool_calls" and whole["content"] is None
    assert call["function"]["name"] == "forecast" and call["type"] == "function" and call["id"]
    jsonschema.validate(json.loads(call["function"]["arguments"]), PARAMETERS)
    n = len(whole["tokens"])
    for budget in (1, n // 2, n - 1):
        cut = answer(tmp_path, *options, "-n", str(budget))
        assert cut["tokens"] == whole["tokens"][:budget] and cut["finish_reason"] == "length" and cut["content"] is None
        assert cut["tool_calls"] == [] if budget < n - 1 else cut["tool_calls"] in ([], whole["tool_calls"])


def test_required_calls_and_none_does_not(tmp_path):
    assert answer(tmp_path, "-n", "80", "--tool-choice", "required", "--no-parallel-tool-calls")["tool_calls"]
    plain = subprocess.run([MILLRACE, "run", "-m", SMOLLM2, "-p", "What will the weather be in Paris on Monday?", "--temp", "0",
                            "-n", "20", "--json"], capture_output=True, text=True, check=True)
    none, auto = (answer(tmp_path, "-n", "20", "--tool-choice", how) for how in ("none", "auto"))
    assert none["tokens"] == json.loads(plain.stdout)["tokens"] and none["tool_calls"] == [] and none["content"]
    assert auto["tool_calls"] == [] and auto["content"] == none["content"]


def test_calls_are_printed_as_lines_of_json(tmp_path):
    done = run(tmp_path, "-q", "-n", "100", "--tool-choice", "forecast", "--no-parallel-tool-calls")
    call = json.loads(done.stdout)
    assert call["name"] == "forecast" and set(call["arguments"]) == {"city", "day"}


def test_the_template_sees_the_tools(tmp_path):
    template = tmp_path / "template.jinja"
    template.write_text("{% if tools %}{{ tools[0].function.name }}{% endif %}{{ messages[0].content }}")
    done = run(tmp_path, "-n", "1", "--chat-template", template, "--verbose-prompt")
    assert "'fore'" in done.stderr or "'forecast'" in done.stderr or "'f'" in done.stderr


@pytest.mark.parametrize("tools, options, reason", [
    ("{", (), "tools, line 1"),
    ("", (), "is empty"),
    ("[]", (), "tools: must be a list"),
    (TOOLS, ("--tool-choice", "fly"), "tool_choice: 'fly'"),
    (TOOLS, ("--tool-format", "xml"), "format: 'xml'"),
    (TOOLS, ("--raw",), "--raw"),
    (TOOLS, ("--json-object",), "--json-object"),
    (TOOLS, ("--ignore-eos",), "--ignore-eos"),
    ([{"type": "function", "function": {"name": "f", "parameters": {"properties": {"a": {"frob": 1}}}}}],
     ("--tool-choice", "f"), "tools[0].function.parameters: schema #/properties/a: keyword 'frob'"),
])
def test_what_is_wrong_is_an_error_by_name(tools, options, reason, tmp_path):
    done = run(tmp_path, "-n", "5", *options, tools=tools)
    assert done.returncode != 0 and done.stdout == "" and reason in done.stderr, done.stderr
