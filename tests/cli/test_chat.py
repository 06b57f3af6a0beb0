"""The conversation on a terminal."""
import json

import pytest
from program import SMOLLM2, Terminal, needs_smollm2

pytestmark = needs_smollm2
PROMPT = r"\n?> "


@pytest.fixture
def chat(tmp_path):
    opened = []

    def start(*args):
        t = Terminal("run", "-m", SMOLLM2, "--temp", 0, "-n", 200, *args, env={"XDG_STATE_HOME": str(tmp_path), "LANG": "C.UTF-8"})
        opened.append(t)
        t.expect("/help lists the commands")
        t.expect(PROMPT)
        return t

    yield start
    for t in opened:
        t.close()


def test_a_question_is_answered_and_the_next_knows_the_first(chat):
    t = chat("-q")
    t.type("Tell me the capital of France.\r")
    t.expect("Paris")
    t.expect(PROMPT)
    t.type("/stats\r")
    t.expect(r"context: \d+ of 8192 tokens")
    t.type("/exit\r")
    assert t.wait() == 0


def test_help_lists_every_command(chat):
    t = chat()
    t.type("/help\r")
    for name in ("/help", "/system", "/reset", "/save", "/stats", "/exit"):
        t.expect(f"  {name} ")
    t.type("/nonsense\r")
    t.expect("/nonsense is no command")


def test_ctrl_c_stops_the_answer_not_the_program(chat):
    t = chat("--ignore-eos")
    t.type("Count to one thousand.\r")
    t.expect(r"thousand\.\r\n.*\w")
    t.type("\x03")
    t.expect("stopped")
    t.expect(PROMPT)
    t.type("/stats\r")
    t.expect("context:")


def test_ctrl_c_at_the_prompt_clears_the_line_and_twice_leaves(chat):
    t = chat()
    t.type("forget this")
    t.expect("forget this")
    t.type("\x03")
    t.expect("Ctrl-C once more")
    t.expect(PROMPT)
    t.type("/stats\r")
    t.expect("context: 0 of")
    t.expect(PROMPT)
    t.type("\x03")
    t.expect(PROMPT)
    t.type("\x03")
    assert t.wait() == 0


def test_ctrl_d_leaves(chat):
    t = chat()
    t.type("\x04")
    assert t.wait() == 0


def test_several_lines_make_one_message(chat, tmp_path):
    t = chat("-n", "1", "-q")
    t.type("one \\\r")
    t.expect(r"\.\.\. ")
    t.type("two\r")
    t.expect(PROMPT)
    t.type('"""three\r')
    t.expect(r"\.\.\. ")
    t.type('\r')
    t.expect(r"\.\.\. ")
    t.type('four"""\r')
    t.expect(PROMPT)
    saved = tmp_path / "saved.json"
    t.type(f"/save {saved}\r")
    t.expect("4 messages are in")
    messages = json.loads(saved.read_text())
    assert [m["role"] for m in messages] == ["user", "assistant"] * 2
    assert [m["content"] for m in messages[::2]] == ["one \ntwo", "three\n\nfour"]


def test_the_system_message_can_be_set_and_outlives_a_reset(chat, tmp_path):
    t = chat("-n", "1", "-q", "--system", "First.")
    saved = tmp_path / "saved.json"
    t.type("hi\r")
    t.expect(PROMPT)
    t.type("/system Second: \u00e9.\r")
    t.expect("system message is set")
    t.expect(PROMPT)
    t.type("/reset\r")
    t.expect("begins anew")
    t.expect(PROMPT)
    t.type(f"/save {saved}\r")
    t.expect("1 messages are in")
    assert json.loads(saved.read_text()) == [{"role": "system", "content": "Second: \u00e9."}]


def test_a_reset_empties_the_context(chat):
    t = chat("-n", "1", "-q")
    t.type("hi\r")
    t.expect(PROMPT)
    t.type("/stats\r")
    t.expect(r"first token after .*\n.*context: [1-9]\d* of 8192")
    t.expect(PROMPT)
    t.type("/reset\r")
    t.expect(PROMPT)
    t.type("/stats\r")
    assert "first token" not in t.expect("context: 0 of 8192")


def test_a_system_message_can_be_taken_back(chat):
    t = chat("--system", "First.")
    t.type("/system\r")
    t.expect("system message is gone")
    t.expect(PROMPT)
    t.type("/system\r")
    t.expect("There is no system message")


def test_a_file_that_cannot_be_written_is_told_with_the_reason(chat, tmp_path):
    t = chat()
    t.type("/save\r")
    t.expect("/save needs a file name")
    t.expect(PROMPT)
    t.type(f"/save {tmp_path}/none/s.json\r")
    t.expect("cannot be written: No such file")


def test_what_does_not_fit_is_said_with_both_numbers(chat):
    t = chat("-c", "48", "-q")
    t.type("word " * 60 + "\r")
    t.expect(r"\d+ tokens and the context 48")
    t.expect("was not added")
    t.expect(PROMPT)
    t.type("/stats\r")
    t.expect("of 48 tokens")


def test_history_comes_back_with_the_next_start(chat, tmp_path):
    t = chat()
    t.type("/stats\r")
    t.expect("context:")
    t.expect(PROMPT)
    t.type("\x04")
    assert t.wait() == 0
    assert "stats" in (tmp_path / "millrace/history").read_text()
    t = chat()
    t.type("\x1b[A\r")
    t.expect("context:")
