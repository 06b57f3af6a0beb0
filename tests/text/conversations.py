"""Conversations that chat templates are rendered with: each is the variables of one render."""
TOOLS = [
    {"type": "function", "function": {
        "name": "get_weather", "description": "Today's weather: <b>fast</b> & \"good\" é",
        "parameters": {"type": "object", "properties": {
            "city": {"type": "string", "description": "the city's name", "enum": ["Bern", "Genève"]},
            "days": {"type": "integer", "default": 1, "minimum": 0},
            "detail": {"type": ["string", "null"], "nullable": True},
            "where": {"type": "object", "properties": {"lat": {"type": "number"}, "tags": {
                "type": "array", "items": {"type": "string"}}}, "required": ["lat"]}},
            "required": ["city"]},
        "return": {"type": "string"}, "strict": True}},
    {"type": "function", "function": {"name": "stop", "description": "Stop", "parameters": {
        "type": "object", "properties": {}}}},
]
PLAIN_TOOLS = [
    {"type": "function", "function": {
        "name": "get_weather", "description": "The weather", "parameters": {"type": "object", "properties": {
            "city": {"type": "string", "description": "where"}, "days": {"type": "integer", "description": "how many"},
            "tags": {"type": "array", "items": {"type": "string"}, "description": "a list"}}, "required": ["city"]}}},
]
FUNCTIONS = {"functions": "[{\"name\": \"get_weather\"}]", "datetime": "Nov 14 2023"}
SYSTEM = {"role": "system", "content": "You are a miller.\n\nBe brief."}
DEVELOPER = {"role": "developer", "content": "Answer in French."}
USER = {"role": "user", "content": "  Hello, what's <|im_end|> the \"time\"? 你好 \n"}
ANSWER = {"role": "assistant", "content": "It is noon."}
AGAIN = {"role": "user", "content": "And now?"}
THOUGHT = {"role": "assistant", "content": "<think>\nhm\n</think>\n\nStill noon."}
REASONED = {"role": "assistant", "content": "Later.", "reasoning_content": "Time\npasses.", "thinking": "Time\npasses."}
PARTS = {"role": "user", "content": [{"type": "text", "text": "foo "}, {"type": "text", "text": "bar"}]}
IMAGE = {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "What is it?"}]}
CALL = {"role": "assistant", "content": "", "tool_calls": [
    {"id": "call_0001", "type": "function", "function": {
        "name": "get_weather", "arguments": {"city": "Bern", "days": 2, "hot": True, "x": None, "l": [1, 2.5, "a"], "d": {"k": "v"}}}}]}
CALL_TEXT = {"role": "assistant", "content": "I look.", "tool_calls": [
    {"id": "call_0002", "type": "function", "function": {"name": "get_weather", "arguments": "{\"city\": \"Bern\"}"}}]}
CALLS = {"role": "assistant", "content": None, "reasoning_content": "Both.", "thinking": "Both.", "tool_calls": [
    {"id": "abcdefghi", "type": "function", "function": {"name": "get_weather", "arguments": {"city": "Genève"}}},
    {"id": "bcdefghij", "type": "function", "function": {"name": "stop", "arguments": {}}}]}
RESULT = {"role": "tool", "tool_call_id": "call_0001", "name": "get_weather", "content": "{\"temperature\": 21.5}"}
RESULTS = [{"role": "tool", "tool_call_id": "abcdefghi", "name": "get_weather", "content": "sunny"},
           {"role": "tool", "tool_call_id": "bcdefghij", "name": "stop", "content": [{"type": "text", "text": "done"}]}]
DOCUMENTS = [{"title": "Mills", "text": "A mill grinds."}, {"title": "Races", "text": "Water\nruns."}]
TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}


def chat(*messages, prompt=True, **more):
    return {"messages": list(messages), "tools": None, "documents": None, "add_generation_prompt": prompt, **TOKENS, **more}


CONVERSATIONS = [
    chat(USER), chat(USER, prompt=False), chat(SYSTEM, USER), chat(SYSTEM, USER, ANSWER, AGAIN),
    chat(USER, ANSWER, AGAIN, THOUGHT, USER), chat(USER, ANSWER, prompt=False), chat(USER, THOUGHT, prompt=False),
    chat(SYSTEM, USER, REASONED, AGAIN), chat(USER, REASONED, AGAIN, REASONED, prompt=False),
    chat(PARTS), chat(SYSTEM, PARTS, ANSWER, AGAIN), chat(IMAGE),
    chat({"role": "system", "content": [{"type": "text", "text": "Sys"}]}, USER),
    chat(USER, tools=TOOLS), chat(SYSTEM, USER, tools=TOOLS), chat(SYSTEM, USER, ANSWER, AGAIN, tools=TOOLS, prompt=False),
    chat(USER, CALL, RESULT, tools=TOOLS), chat(SYSTEM, USER, CALL, RESULT, ANSWER, AGAIN, tools=TOOLS),
    chat(USER, CALL_TEXT, RESULT, tools=TOOLS), chat(USER, CALLS, *RESULTS, tools=TOOLS),
    chat(USER, CALLS, *RESULTS, REASONED, AGAIN, tools=TOOLS), chat(USER, CALL, prompt=False),
    chat(USER, CALL, RESULT, CALL, RESULT, ANSWER, tools=TOOLS, prompt=False),
    chat(SYSTEM, USER, documents=DOCUMENTS), chat(USER, ANSWER, AGAIN, documents=DOCUMENTS, tools=TOOLS),
    chat(USER, enable_thinking=True), chat(USER, enable_thinking=False), chat(SYSTEM, USER, THOUGHT, AGAIN, enable_thinking=False),
    chat(USER, thinking=True), chat(USER, thinking=False, tools=TOOLS), chat(USER, reasoning_effort="high"),
    chat(SYSTEM, USER, CALLS, *RESULTS, tools=TOOLS, reasoning_effort="low", thinking=True),
    chat(DEVELOPER, USER, tools=TOOLS), chat(SYSTEM, DEVELOPER, USER), chat(USER, USER), chat(ANSWER, USER), chat(SYSTEM),
    chat(), chat({"role": "alien", "content": "x"}), chat(USER, {"role": "tool", "content": "lost"}),
    chat(USER, {"role": "assistant", "content": None}), chat({"role": "user"}), chat({"content": "x"}),
    chat(USER, custom_tools=TOOLS, tools_in_user_message=False, date_string="1 May 2024"),
    chat(USER, builtin_tools=["wolfram_alpha", "code_interpreter"], xml_tools=TOOLS, available_tools=TOOLS),
    {"messages": [USER]}, {"messages": [SYSTEM, USER, ANSWER], "add_generation_prompt": False, "tools": TOOLS},
    {"messages": [USER, REASONED, AGAIN], "add_generation_prompt": True, "bos_token": "<bos>", "eos_token": "", "keep_past_thinking": True},
    {"messages": [SYSTEM, USER], "tools": [], "documents": [], "add_generation_prompt": True, "bos_token": None, "eos_token": "</s>"},
] + [
    chat(*messages, tools=PLAIN_TOOLS, prompt=prompt, **FUNCTIONS, **more)
    for messages in ((USER,), (SYSTEM, USER), (SYSTEM, USER, ANSWER, AGAIN), (USER, ANSWER, AGAIN), (USER, CALL, RESULT), (USER, CALL_TEXT, RESULT),
                     (SYSTEM, USER, CALL, RESULT, ANSWER, AGAIN))
    for prompt, more in ((True, {}), (False, {"documents": DOCUMENTS}))
]
