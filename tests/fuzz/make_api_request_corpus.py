"""Writes tests/fuzz/corpus/api_request/: requests that name every field."""

import json
import pathlib

TOOL = {"type": "function", "function": {"name": "f", "description": "d", "parameters": {
    "type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}}}
SAMPLING = {"temperature": 0.5, "top_p": 0.9, "top_k": 40, "min_p": 0.1, "typical_p": 1, "seed": -1, "stop": ["a", "b"],
            "stop_token_ids": [1], "logit_bias": {"5": -100}, "bad_words": ["x"], "min_tokens": 1, "max_tokens": 5,
            "presence_penalty": 1, "frequency_penalty": -1, "repeat_penalty": 1.1, "repeat_last_n": -1, "priority": 1,
            "service_tier": "flex", "cache_salt": "s", "ignore_eos": True, "n": 1, "best_of": 1}
CHATS = [
    {"messages": [{"role": "user", "content": "hi"}], **SAMPLING, "stream": True, "stream_options": {"include_usage": True}},
    {"messages": [{"role": "developer", "content": [{"type": "text", "text": "a"}]},
                  {"role": "assistant", "content": None, "tool_calls": [
                      {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{\"a\": 1}"}}]},
                  {"role": "tool", "tool_call_id": "c", "content": "2"}],
     "tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "f"}}, "parallel_tool_calls": False},
    {"messages": [{"role": "user", "content": "\u0000"}], "logprobs": True, "top_logprobs": 3, "reasoning_format": "none",
     "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}}},
    {"messages": [{"role": "user", "content": "x"}], "structured_outputs": {"choice": ["a", "b\""]},
     "chat_template_kwargs": {"enable_thinking": False}, "logit_bias": [[5, 1], ["x", False]]},
]
COMPLETIONS = [
    {"prompt": "abc", "echo": True, "logprobs": 2, **SAMPLING},
    {"prompt": [[65, 66], "x"], "stream": True, "echo": True, "guided_regex": "a+"},
    {"prompt": [65, "x"], "prompt_logprobs": 1, "grammar": "root ::= \"a\"", "suffix": ""},
]


def main():
    folder = pathlib.Path(__file__).parent / "corpus" / "api_request"
    folder.mkdir(parents=True, exist_ok=True)
    for endpoint, bodies in enumerate([CHATS, COMPLETIONS]):
        for i, body in enumerate(bodies):
            (folder / f"{endpoint}_{i}.bin").write_bytes(bytes([endpoint, 5]) + json.dumps(body).encode())


if __name__ == "__main__":
    main()
