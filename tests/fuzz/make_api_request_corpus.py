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
BLOCKS = [{"type": "text", "text": "a"}]
ANTHROPIC = [
    {"max_tokens": 5, "messages": [
        {"role": "user", "content": BLOCKS},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "t"},
                                          {"type": "tool_use", "id": "i", "name": "f", "input": {"a": 1}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "i", "content": BLOCKS}]}],
     "system": BLOCKS, "tools": [{"name": "f", "input_schema": {"type": "object"}}],
     "tool_choice": {"type": "tool", "name": "f", "disable_parallel_tool_use": True}, "thinking": {"type": "enabled"},
     "stop_sequences": ["x"], "stream": True},
]
RESPONSES = [
    {"input": "hi", "instructions": "i", "text": {"format": {"type": "json_schema", "schema": {"type": "object"}}}},
    {"input": [{"role": "user", "content": [{"type": "input_text", "text": "a"}]},
               {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
               {"type": "function_call_output", "call_id": "c", "output": "1"}, {"type": "reasoning", "summary": []}],
     "tools": [{"type": "function", "name": "f", "parameters": {"type": "object"}}], "tool_choice": "required",
     "stream": True, "reasoning": {"effort": "low"}, "previous_response_id": None},
]
OLLAMA_CHATS = [
    {"model": "tiny", "messages": [{"role": "user", "content": "hi", "images": []}], "tools": [TOOL], "think": True,
     "options": {"num_predict": -2, "temperature": 0}, "keep_alive": "5m"},
    {"model": "tiny:latest", "messages": [], "stream": False},
]
OLLAMA_TEXTS = [{"model": "tiny", "prompt": "a", "system": "s", "format": {"type": "object"}, "stream": False},
                {"model": "tiny", "prompt": "a", "raw": True, "format": "json"}]
NATIVE = [{"prompt": ["a", [1, 2]], "n_predict": 3, "n_probs": 2, "return_tokens": True, "stream": True}]
TOKENIZE = [{"content": "a", "with_pieces": True}, {"prompt": "a", "return_token_strs": True},
            {"messages": [{"role": "user", "content": "hi"}]}]
BACK = [{"tokens": [1, 200, 3]}]
TEMPLATE = [{"messages": [{"role": "user", "content": "hi"}], "add_generation_prompt": False}]
INFILL = [{"input_prefix": "a", "input_suffix": "b", "input_extra": [{"filename": "f", "text": "t"}], "prompt": "c"}]
EMBEDDINGS = [{"input": ["a", [1, 2]], "encoding_format": "base64", "dimensions": 8, "pooling": "mean"}]


def main():
    folder = pathlib.Path(__file__).parent / "corpus" / "api_request"
    folder.mkdir(parents=True, exist_ok=True)
    for endpoint, bodies in enumerate([CHATS, COMPLETIONS, ANTHROPIC, RESPONSES, OLLAMA_CHATS, OLLAMA_TEXTS, NATIVE,
                                        TOKENIZE, BACK, TEMPLATE, INFILL, EMBEDDINGS, EMBEDDINGS]):
        for i, body in enumerate(bodies):
            (folder / f"{endpoint}_{i}.bin").write_bytes(bytes([endpoint, 5]) + json.dumps(body).encode())


if __name__ == "__main__":
    main()
