"""Check that the tests' set-up of jinja2 (tests/text/jinja_reference.py) renders what transformers renders.
Needs tests/golden/requirements.txt: python tests/golden/check_template_reference.py"""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "text"))
from conversations import CONVERSATIONS  # noqa: E402
from jinja_reference import SHARED, reference  # noqa: E402
from template_cases import DATA, PARTS  # noqa: E402
from transformers.utils.chat_template_utils import _compile_jinja_template, render_jinja_template  # noqa: E402


def attempt(render):
    try:
        return render()
    except Exception:
        return None


def render_chat(template, conversation):
    more = dict(conversation)
    messages = more.pop("messages")
    return render_jinja_template([messages], chat_template=template, **more)[0][0]


checked = 0
for part in PARTS.values():
    for case in part:
        if "strftime_now" not in case:  # transformers' is the present
            assert attempt(lambda: _compile_jinja_template(case).render(**DATA)) == reference(case, DATA), case
            checked += 1
for path in sorted((SHARED / "data/chat_templates").glob("*.jinja")):
    template = path.read_text()
    for i, conversation in enumerate(CONVERSATIONS):
        if "strftime_now" not in template:
            # What transformers always passes is not part of every conversation of ours.
            full = {"tools": None, "documents": None, "add_generation_prompt": False, **conversation}
            assert attempt(lambda: render_chat(template, full)) == reference(template, full), (path.name, i)
            checked += 1
print(f"{checked} renders are equal")
