"""Random expressions and slices mean what they mean to jinja2."""
import math

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jinja_reference import reference, render_all
from template_cases import DATA

WORDS = st.text(st.sampled_from("ab xÉß你\n'\"\\{%-"), max_size=6)
NUMBERS = st.one_of(st.integers(-20, 20), st.integers(-2**40, 2**40), st.floats(-1e6, 1e6).filter(lambda x: math.copysign(1, x) > 0))


def literal(value):
    """The value written in a template."""
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n")
        return f"'{escaped}'"
    return repr(value)


ATOMS = st.one_of(st.sampled_from(["n", "f", "s", "u", "l", "d", "t", "z", "none", "missing", "words", "people", "d.a", "l[0]", "true", "empty", "el"]),
                  NUMBERS.map(literal), WORDS.map(literal), st.lists(NUMBERS.map(literal), max_size=3).map(lambda x: f"[{', '.join(x)}]"))
BINARY = ["+", "-", "*", "/", "//", "%", "~", "==", "!=", "<", "<=", ">", ">=", "and", "or", "in", "not in"]
FILTERS = ["length", "string", "int", "float", "abs", "upper", "lower", "title", "capitalize", "trim", "first", "last", "list", "sort", "reverse", "join",
           "join('-')", "sum", "max", "min", "tojson", "unique|list", "default('x')", "default('x', true)", "round", "round(1)", "escape", "urlencode",
           "replace('a', 'bb')", "indent(2)", "wordcount", "batch(2)|list", "slice(2)|list", "select|list", "map('string')|list", "truncate(3, true, '', 0)",
           "dictsort", "items|list", "center(9)", "tojson(indent=1)", "groupby('age')", "map(attribute='name')|list", "map('upper')|join"]
TESTS = ["defined", "none", "string", "number", "integer", "float", "mapping", "sequence", "iterable", "odd", "even", "true", "boolean", "lower", "upper",
         "in [1, 'a']", "eq 1", "divisibleby 3", "not string", "not defined"]
METHODS = ["upper()", "strip()", "split()", "split('a')", "split(' ', 1)", "rsplit('a', 1)", "replace('a', 'x', 1)", "find('a')", "count('a')", "startswith('a')",
           "endswith(('a', 'x'))", "title()", "capitalize()", "swapcase()", "splitlines()", "zfill(5)", "center(7, '*')", "partition('a')", "isalpha()", "items()",
           "keys()|list", "get('a')", "get('q', 1)", "lstrip('a ')", "rstrip()", "join(['x', 'y'])", "index('a')", "casefold()", "expandtabs()", "isdigit()"]
INDEX = st.one_of(st.just(""), st.integers(-8, 8).map(str))
SLICE = st.tuples(INDEX, INDEX, st.sampled_from(["", "1", "2", "-1", "-2", "3"])).map(lambda x: f"{x[0]}:{x[1]}:{x[2]}")


def extend(inner):
    return st.one_of(
        st.tuples(inner, st.sampled_from(BINARY), inner).map(lambda x: f"({x[0]} {x[1]} {x[2]})"),
        st.tuples(inner, st.sampled_from(BINARY), inner, st.sampled_from(BINARY), inner).map(lambda x: f"({x[0]} {x[1]} {x[2]} {x[3]} {x[4]})"),
        st.tuples(inner, st.sampled_from(FILTERS)).map(lambda x: f"({x[0]} | {x[1]})"),
        st.tuples(inner, st.sampled_from(FILTERS)).map(lambda x: f"{x[0]} | {x[1]}"),
        st.tuples(inner, st.sampled_from(TESTS)).map(lambda x: f"({x[0]} is {x[1]})"),
        st.tuples(inner, st.sampled_from(METHODS)).map(lambda x: f"({x[0]}).{x[1]}"),
        st.tuples(inner, SLICE).map(lambda x: f"({x[0]})[{x[1]}]"),
        st.tuples(inner, st.integers(-4, 4)).map(lambda x: f"({x[0]})[{x[1]}]"),
        st.tuples(inner, inner, inner).map(lambda x: f"({x[0]} if {x[1]} else {x[2]})"),
        st.tuples(inner, inner).map(lambda x: f"{{{x[0]}: {x[1]}}}"), inner.map(lambda x: f"not {x}"), inner.map(lambda x: f"-{x}"),
        st.lists(inner, min_size=1, max_size=3).map(lambda x: f"[{', '.join(x)}]"), inner.map(lambda x: f"({x},)"))


EXPRESSIONS = st.recursive(ATOMS, extend, max_leaves=6)
# What is a generator or a method prints with its address. Ours alone: integers past 64 bits are errors; slices of what
# cannot be sliced are errors in constants, too.
IGNORED = (" at 0x", "object>")
OURS = ("64 bits", "cannot be sliced")


@settings(max_examples=100, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.lists(EXPRESSIONS, min_size=25, max_size=25))
def test_random_expressions_mean_the_same(expressions):
    jobs = [("{{ " + expression + " }}", DATA) for expression in expressions]
    for (template, _), answer in zip(jobs, render_all(jobs)):
        want = reference(template, DATA)
        if want is None or not any(word in want for word in IGNORED) and not any(word in answer.get("error", "") for word in OURS):
            assert answer.get("text") == want, (template, answer)


TAGS = ["{% if t %}", "{% if z %}", "{% else %}", "{% endif %}", "{%- if t -%}", "{%- endif -%}", "{%+ if t +%}", "{% for i in l %}", "{% endfor %}", "{{ n }}",
        "{{- n -}}", "{# c #}", "{#- c -#}", "{% set x = 1 %}", "{%- set x = 2 %}", "{% raw %}", "{% endraw %}", "{%- raw -%}", "{% break %}", "{{ i }}", "{{ x }}",
        "{% filter upper %}", "{% endfilter %}", "{% generation %}", "{% endgeneration %}", "{{ '}}' }}"]
TEXTS = [" ", "  ", "\n", "\n\n", "a", " b ", "\n  ", "\t", "c\n", "\r\n", "{", "}", "%}", "\u00a0"]


@settings(max_examples=100, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.lists(st.lists(st.sampled_from(TAGS + TEXTS), max_size=12).map("".join), min_size=25, max_size=25))
def test_random_tags_and_blanks_mean_the_same(templates):
    for template, answer in zip(templates, render_all([(t, DATA) for t in templates])):
        assert answer.get("text") == reference(template, DATA), template
