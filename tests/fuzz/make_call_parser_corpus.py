"""The corpus of fuzz_call_parser: an answer with calls in each format, whole and damaged."""
from pathlib import Path

FOLDER = Path(__file__).parent / "corpus/call_parser"
ARGUMENTS = '{"city": "Par\\"is}", "n": [1, {"a": null}]}'
CALL = '{"name": "get_weather", "arguments": %s}' % ARGUMENTS
OTHER = CALL.replace("arguments", "parameters")
ANSWERS = {     # in the order of the table
    "deepseek": "Hi<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n%s\n```<｜tool▁call▁end｜>\n"
                "<｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>" % ARGUMENTS,
    "deepseek_v31": "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>%s<｜tool▁call▁end｜><｜tool▁calls▁end｜>" % ARGUMENTS,
    "mistral_args": "[TOOL_CALLS]f[ARGS]%s[TOOL_CALLS]f[ARGS]{}" % ARGUMENTS,
    "mistral": '[TOOL_CALLS][%s, %s, "id": "123456789"}]' % (CALL, CALL[:-1]),
    "granite": "<|tool_call|>[%s, %s]" % (CALL, CALL),
    "hermes": "<think>\nWell.</think>\n\nOk.\n<tool_call>\n%s\n</tool_call>\n<tool_call>\n%s\n</tool_call>" % (CALL, CALL),
    "llama3": "<|python_tag|>%s; %s" % (OTHER, OTHER),
    "gemma": "%s\n%s" % (OTHER, OTHER),
    "json": "%s\n%s" % (CALL, CALL),
    "none": "<think>no</think> %s" % CALL,
}


def main():
    FOLDER.mkdir(parents=True, exist_ok=True)
    for i, (name, text) in enumerate(ANSWERS.items()):
        data = text.encode()
        (FOLDER / name).write_bytes(bytes([i + 16, 0]) + data)
        (FOLDER / f"{name}_cut").write_bytes(bytes([i + 64, 3]) + data[:len(data) * 2 // 3])
        (FOLDER / f"{name}_twice").write_bytes(bytes([i, 6]) + data[:20] + data)
        (FOLDER / f"{name}_begun").write_bytes(bytes([i + 48, 1]) + b"so</think>" + data)


if __name__ == "__main__":
    main()
