"""Each construct of the template language renders as jinja2, set up as transformers sets it up, renders it."""
import pytest
from jinja_reference import reference, render_all
from template_cases import DATA, PARTS


@pytest.fixture(scope="module")
def answers():
    cases = [c for part in PARTS.values() for c in part]
    return dict(zip(cases, render_all([(c, DATA) for c in cases])))


@pytest.mark.parametrize("part", [p for p in PARTS if p != "ERRORS"])
def test_a_construct_renders_as_the_reference(part, answers):
    for case in PARTS[part]:
        want = reference(case, DATA)
        assert want is not None, f"the reference does not render {case!r}"
        assert answers[case].get("text") == want, f"{case!r}: {answers[case].get('error')}"


@pytest.mark.parametrize("case", PARTS["ERRORS"])
def test_what_the_reference_refuses_is_refused(case, answers):
    assert reference(case, DATA) is None
    assert answers[case].get("error")
