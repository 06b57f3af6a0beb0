"""The chat templates of published models render as jinja2, set up as transformers sets it up, renders them."""
import pytest
from conversations import CONVERSATIONS
from jinja_reference import SHARED, reference, render_all

PUBLISHED = sorted((SHARED / "data/chat_templates").glob("*.jinja"))


@pytest.mark.skipif(not PUBLISHED, reason="the published templates (data/chat_templates of MILLRACE_SHARED) are not here")
@pytest.mark.parametrize("path", PUBLISHED, ids=lambda p: p.stem)
def test_a_published_template_renders_as_the_reference(path):
    template = path.read_text()
    answers = render_all([(template, c) for c in CONVERSATIONS])
    for i, (conversation, answer) in enumerate(zip(CONVERSATIONS, answers)):
        assert answer.get("text") == reference(template, conversation), f"conversation {i}: {answer.get('error')}"
