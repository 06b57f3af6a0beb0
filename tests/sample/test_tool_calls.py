"""Answers that call functions: what the constraint allows, read back by the parser, in every format."""
import json
import os
import re
import subprocess
from pathlib import Path

import jsonschema
import pytest

BUILD = os.environ.get("MILLRACE_BUILD")
SHARED = Path(os.environ.get("MILLRACE_SHARED", Path(__file__).resolve().parents[3] / "shared"))
CITY = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 8, "pattern": "^[A-Z]"},
                                         "unit": {"enum": ["c", "f"]}},
        "required": ["city"], "additionalProperties": False}
TREE = {"type": "object", "properties": {"value": {"type": "integer", "minimum": -5, "maximum": -3},
                                         "next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}},
        "required": ["value"], "additionalProperties": False}
TOOLS = [{"type": "function", "function": {"name": "get_weather", "description": "d", "parameters": CITY}},
         {"type": "function", "function": {"name": "tree-1", "parameters": TREE}},
         {"type": "function", "function": {"name": "now"}}]
SCHEMA = {"get_weather": CITY, "tree-1": TREE, "now": {"type": "object", "maxProperties": 0}}
OPEN = {"deepseek": "<｜tool▁calls▁begin｜>", "deepseek-v3.1": "<｜tool▁calls▁begin｜>", "mistral-args": "[TOOL_CALLS]",
        "mistral": "[TOOL_CALLS][", "granite": "<|tool_call|>[", "hermes": "<tool_call>\n", "llama3": "", "gemma": "", "json": ""}
FORMATS = list(OPEN)


def pipe(program, requests):
    done = subprocess.run([Path(BUILD) / "tests" / program], input="".join(json.dumps(r) + "\n" for r in requests),
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.split("\n") if line]


def split(**request):
    return pipe("call_split", [request])[0]


def walks(request, n=12, steps=60, **more):
    text = split(**request)["constraint"]
    answer = pipe("constraint_pipe", [{"kind": "calls", "text": text, "walks": n, "steps": steps, "seed": 5, **more}])[0]
    assert "error" not in answer and not answer.get("wrong"), answer
    return [w for w in answer["walks"] if w is not None]


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("choice", ["auto", "required", "get_weather"])
@pytest.mark.parametrize("parallel", [True, False])
def test_what_is_allowed_is_read_back(format, choice, parallel):
    request = {"tools": TOOLS, "choice": choice, "format": format, "parallel": parallel}
    texts = walks(request)
    assert len(texts) > 6
    n_calls = 0
    for text in texts:
        for cut in (1, 7, 100000):
            got = split(**request, text=text, cut=cut)
            assert got["open"] == 0
            for name, arguments, complete in got["calls"]:
                assert complete and jsonschema.Draft202012Validator(SCHEMA[name]).is_valid(json.loads(arguments)), text
                assert choice in ("auto", "required") or name == choice
            if choice == "auto" and not got["calls"]:
                assert got["content"] == text and (OPEN[format] == "" or OPEN[format].strip() not in text)
            if choice != "auto":
                assert got["content"] == "" and len(got["calls"]) > 0
            assert parallel or len(got["calls"]) < 2
        n_calls += len(got["calls"])
    assert choice == "auto" or n_calls >= len(texts)


@pytest.mark.parametrize("format", FORMATS)
def test_masks_agree_with_accepting_each_token(format):
    assert walks({"tools": TOOLS, "choice": "auto", "format": format}, n=2, steps=30, check=True)


def test_reasoning_comes_first_and_must_end():
    template = "<think> <tool_call> arguments"
    for begun in (False, True):
        request = {"tools": TOOLS, "choice": "required", "template": template, "begun": begun}
        texts = walks(request)
        for text in texts:
            got = split(**request, text=text)
            assert got["calls"] and got["content"] == ""
            assert begun or got["reasoning"] == "" or text.startswith("<think>")
            assert not begun or "</think>" in text
        accept = ["x <tool_call>y</think>\n\n<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>"]
        accept = accept if begun else ["<think>" + accept[0]]
        constraint = split(**request)["constraint"]
        assert pipe("constraint_pipe", [{"kind": "calls", "text": constraint, "accept": accept}])[0]["accept"] == [True]
        assert split(**request, text=accept[0])["reasoning"] == "x <tool_call>y"


def test_free_text_before_calls_and_none_behind():
    for format, call in (("hermes", "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>"),
                         ("mistral", "[TOOL_CALLS][{\"name\": \"now\", \"arguments\": {}}]")):
        text = split(tools=TOOLS, format=format)["constraint"]
        accept = ["", "Hello", "Hello\n" + call, call + "x", "<tool_call>", call.replace("now", "later"), call[:-1]]
        got = pipe("constraint_pipe", [{"kind": "calls", "text": text, "accept": accept}])[0]["accept"]
        assert got == [True, True, True, False, format != "hermes", False, False]


@pytest.mark.parametrize("change, message", [
    ({"tools": []}, "tools: must be a list of 1 to 1024 functions"),
    ({"tools": {}}, "tools: must be a list"),
    ({"tools": [{"type": "tool"}]}, "tools[0].type: must be 'function'"),
    ({"tools": [{"type": "function", "function": {"name": "a b"}}]}, "tools[0].function.name"),
    ({"tools": [{"type": "function", "function": {"name": "x" * 65}}]}, "tools[0].function.name"),
    ({"tools": TOOLS + TOOLS[:1]}, "tools[3].function.name: 'get_weather' is there twice"),
    ({"tools": [{"type": "function", "function": {"name": "f", "parameters": []}}]}, "tools[0].function.parameters"),
    ({"tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "string"}}}]},
     "tools[0].function.parameters.type"),
    ({"choice": "other"}, "tool_choice: 'other' is neither"),
    ({"format": "xml"}, "format: 'xml'"),
])
def test_what_is_wrong_is_refused_by_name(change, message):
    assert message in split(**{"tools": TOOLS, **change})["error"]


def test_a_schema_that_cannot_be_enforced_names_its_tool():
    for parameters, message in (({"type": "object", "properties": {"a": {"type": "notatype"}}}, "notatype"),
                                ({"properties": {"a": {"$ref": "#/no"}}, "required": ["a"]}, "leads nowhere"),
                                ({"properties": {"a": {"pattern": "(?<=x)"}}, "required": ["a"]}, "pattern"),
                                ({"properties": {"a": {"frobnicate": 1}}, "required": ["a"]}, "frobnicate")):
        tools = [TOOLS[0], {"type": "function", "function": {"name": "f", "parameters": parameters}}]
        text = split(tools=tools)["constraint"]
        error = pipe("constraint_pipe", [{"kind": "calls", "text": text}])[0]["error"]
        assert error.startswith("tools[1].function.parameters: ") and message in error


def test_none_calls_nothing():
    got = split(tools=TOOLS, choice="none", template="<think> <tool_call> arguments",
                text="<think>a</think>\n<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>")
    assert got["constraint"] is None and got["calls"] == [] and got["reasoning"] == "a" and "now" in got["content"]


TEMPLATES = {"Qwen-Qwen3-0.6B": "hermes", "Qwen-Qwen2.5-7B-Instruct": "hermes",
             "NousResearch-Hermes-3-Llama-3.1-8B-tool_use": "hermes", "ibm-granite-granite-4.0": "hermes",
             "ibm-granite-granite-3.3-2B-Instruct": "granite", "meta-llama-Llama-3.1-8B-Instruct": "llama3",
             "meta-llama-Llama-3.3-70B-Instruct": "llama3", "mistralai-Mistral-Nemo-Instruct-2407": "mistral",
             "Mistral-Small-3.2-24B-Instruct-2506": "mistral-args", "deepseek-ai-DeepSeek-V3.1": "deepseek-v3.1",
             "llama-cpp-deepseek-r1": "deepseek", "google-gemma-2-2b-it": "gemma", "microsoft-Phi-3.5-mini-instruct": "json"}


@pytest.mark.parametrize("name", TEMPLATES)
def test_published_templates_tell_their_format(name):
    path = SHARED / "data/chat_templates" / f"{name}.jinja"
    if not path.exists():
        pytest.skip(f"{path} is not there")
    constraint = json.loads(split(tools=TOOLS, template=path.read_text())["constraint"])
    assert constraint["format"] == TEMPLATES[name]
    assert (constraint["reasoning"] is not None) == bool(re.search("<think>|DeepSeek|deepseek", path.read_text()))
