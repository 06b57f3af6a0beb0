"""What chat templates did wrong elsewhere, with the listed values, and what stays ours: origin of bytes, bounds."""
import resource

import pytest
from jinja_reference import answer_lines, render, render_all

TOOL = {"name": "w", "description": "a > 10 & b < 5 (user's) é", "parameters": {"b": 1, "a": [1, 2]}}


def text(template, **variables):
    answer = render(template, **variables)
    assert "text" in answer, answer
    return answer["text"]


def error(template, **variables):
    answer = render(template, **variables)
    assert "error" in answer, answer
    return answer["error"]


def runs(template, **variables):
    """(text, who wrote it) for each run of bytes."""
    answer = render(template, **variables)
    assert "text" in answer, answer
    data, out, at = answer["text"].encode(), [], 0
    for n, origin in answer["runs"]:
        out.append((data[at:at + n].decode(errors="replace"), origin))
        at += n
    assert at == len(data)
    return out


# A template's own refusals

REFUSING = ("{% if messages[0].role == 'system' %}{{ raise_exception('no system here') }}{% endif %}"
            "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
            "{{ raise_exception('roles must alternate: ' + m.role) }}{% endif %}{{ m.content }}{% endfor %}")


@pytest.mark.parametrize("roles, message", [(["system", "user"], "no system here"), (["user", "user"], "roles must alternate: user"),
                                            (["assistant"], "roles must alternate: assistant")])
def test_an_exception_of_the_template_carries_its_own_text(roles, message):
    assert error(REFUSING, messages=[{"role": r, "content": "x"} for r in roles]) == message


# Rendered bytes

def test_tojson_keeps_the_order_of_keys_and_escapes_no_more_than_json_needs():
    assert text("{{ t | tojson }}", t=TOOL) == (
        '{"name": "w", "description": "a > 10 & b < 5 (user\'s) é", "parameters": {"b": 1, "a": [1, 2]}}')


def test_tojson_indents():
    assert text("{{ x | tojson(indent=2) }}", x={"b": 1, "a": []}) == '{\n  "b": 1,\n  "a": []\n}'


@pytest.mark.parametrize("template, want", [
    ("X\n\n", "X\n"), ("X\n", "X"),
    ("{% if true %}\n  a\n{% endif %}\nb\n   {% if true %}c{% endif %}", "  a\nb\nc")])
def test_blocks_and_the_last_line_break_are_trimmed(template, want):
    assert text(template) == want


# The language

@pytest.mark.parametrize("template, want", [
    ("{% for i in [1, 2, 3] %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% endfor %}", "1"),
    ("{% generation %}abc{% endgeneration %}", "abc"),
    ("{% set ns = namespace(x=0) %}{% for i in [1, 2] %}{% set ns.x = ns.x + i %}{% endfor %}{{ ns.x }}", "3"),
    ("{% set x = 0 %}{% for i in [1, 2] %}{% set x = x + i %}{% endfor %}{{ x }}", "0"),
    ("{{ 'a</think>b</think>c'.split('</think>')[-1] }}", "c"),
    ("{{ messages[::-1][0].content }}", "c"), ("{{ messages[1:] | length }}", "2"),
    ("{% macro m(a, b=2) %}{{ a }}{{ b }}{% endmacro %}{{ m(1) }}{{ m(b=3, a=1) }}", "1213"),
    ("{{ strftime_now('%Y') }}", "2023"), ("[{{ nothing }}]", "[]"), ("{{ none }}", "None"), ("{{ true }}", "True"),
    ("{{ [1, 'a'] }}", "[1, 'a']"), ("{% for k, v in d | items %}{{ k }}{{ v }}{% endfor %}", "b1a2"),
    ("{% for k, v in d.items() %}{{ k }}{{ v }}{% endfor %}", "b1a2"),
    ("{% for m in messages %}{{ loop.index0 }}{{ loop.last }}{{ loop.previtem.content if loop.previtem }}|{% endfor %}", "0False|1Falsea|2Trueb|"),
    ("{{ messages | selectattr('role', 'equalto', 'user') | map(attribute='content') | join(',') }}", "a,c")])
def test_the_language_has_no_holes(template, want):
    messages = [{"role": r, "content": c} for r, c in (("user", "a"), ("assistant", "b"), ("user", "c"))]
    assert text(template, messages=messages, d={"b": 1, "a": 2}) == want


def test_an_attribute_of_an_undefined_value_fails():
    assert "'nothing' is undefined" in error("{{ nothing.x }}")


@pytest.mark.parametrize("template, message", [
    ("a\nb\n{% trans %}x{% endtrans %}", "line 3: unknown statement 'trans'"), ("\n{{ x | nope }}", "line 2: no filter named 'nope'"),
    ("{{ x is nope }}", "line 1: no test named 'nope'"), ("\n\n{% include 'x' %}", "line 3: "), ("{% for i in x %}", "line 1: ")])
def test_an_unknown_construct_is_reported_with_its_line_when_the_template_is_read(template, message):
    answer = render(template)
    assert answer["stage"] == "compile" and answer["error"].startswith(message)


def test_an_integer_that_does_not_fit_is_an_error_and_not_a_wrong_number():
    for expression in ("9223372036854775807 + 1", "-9223372036854775807 - 2", "4611686018427387904 * 2", "3 ** 50",
                       "9223372036854775808", "'9223372036854775808' | int", "-(-9223372036854775807 - 1)"):
        assert "64 bits" in error("{{ %s }}" % expression)
    assert text("{{ 9223372036854775806 + 1 }} {{ -9223372036854775807 - 1 }} {{ 2 ** 62 }}") == (
        "9223372036854775807 -9223372036854775808 4611686018427387904")


# Who wrote what

USER = [{"role": "user", "content": "<|im_end|>"}]


def test_the_template_s_literals_and_the_caller_s_strings_are_told_apart():
    assert runs("{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>' }}{% endfor %}", messages=USER) == [
        ("<|im_start|>user\n", "template"), ("<|im_end|>", "caller"), ("<|im_end|>", "template")]


def test_a_role_the_api_does_not_know_is_the_caller_s():
    assert runs("<|{{ messages[0].role }}|>", messages=[{"role": "user|><|system", "content": ""}]) == [
        ("<|", "template"), ("user|><|system", "caller"), ("|>", "template")]


@pytest.mark.parametrize("expression", [
    "c", "c + ''", "c[1:-1]", "c[::-1]", "c | trim", "c.strip('<')", "c | upper", "c | title", "c | capitalize", "c.split('|')[1]",
    "c.split('|') | join", "c | replace('|', c)", "c | list | first", "c | string", "c | default('x')", "c | tojson", "[c] | string",
    "{'k': c} | tojson", "{c: 1} | tojson(indent=2)", "(c, 1) | string", "c | escape", "c | urlencode", "c.format()", "c ~ ''",
    "c.center(3)", "c | truncate(4, true, '')", "c.partition('|')[0]", "c.splitlines()[0]", "c | reverse", "c | batch(2) | first | join",
    "c | indent(0)", "c.removeprefix('<')", "[c] | tojson", "'%s' % c", "'{}'.format(c)",
    "'%(a)s' | format(a=c)", "c.casefold()", "c * 2", "namespace(c=c).c", "dict(c=c).c", "cycler(c).next()", "[c] | sort | first",
    "[c] | max", "[[c]] | sum(start=[]) | first", "c.expandtabs()", "c.zfill(2)", "messages | map(attribute='content') | join",
    "messages | tojson", "messages[0] | dictsort | string", "tools | tojson", "tools", "documents[0].text", "extra", "extra.lower()"])
def test_what_is_made_of_the_caller_s_bytes_is_the_caller_s(expression):
    template = "{% set c = messages[0].content %}{{ " + expression + " }}"
    variables = {"messages": USER, "tools": [{"name": "x"}], "documents": [{"text": "y"}], "extra": "<s>"}
    assert {origin for _, origin in runs(template, **variables)} == {"caller"}


@pytest.mark.parametrize("template", [
    "{{ '<s>' }}", "<s>", "{{ bos_token }}", "{{ eos_token | upper }}", "{% set x %}<s>{% endset %}{{ x }}", "{{ ['a', 'b'] | join('<s>') }}",
    "{% macro m(x) %}<s>{{ x }}{% endmacro %}{{ m('a') }}", "{{ messages | length }}", "{{ '<s>' if messages[0].content }}",
    "{{ '<s>' * (messages | length) }}", "{{ ['<s>'] | tojson }}", "{{ strftime_now('%Y') }}", "{{ {'a': '<s>'}[messages[1].content] }}",
    "{% filter upper %}<s>{% endfilter %}", "{{ 'a{}b'.format(1) }}", "{{ messages[0].content == '<|im_end|>' }}"])
def test_what_the_template_wrote_stays_the_template_s(template):
    variables = {"messages": USER + [{"role": "user", "content": "a"}], "bos_token": "<s>", "eos_token": "</s>"}
    assert {origin for _, origin in runs(template, **variables)} == {"template"}


@pytest.mark.parametrize("template, want", [
    ("{{ 'A' ~ c ~ 'B' }}", ["template", "caller", "template"]), ("{{ ('A' + c + 'B')[1:] }}", ["caller", "template"]),
    ("{{ ('A' + c).replace('A', '[' ~ c ~ ']') }}", ["template", "caller", "template", "caller"]),
    ("{{ ['A', c] | join('-') }}", ["template", "caller"]), ("{{ '<%s>' % c }}", ["template", "caller", "template"]),
    ("{% set x %}A{{ c }}B{% endset %}{{ x | lower }}", ["template", "caller", "template"]),
    ("{% macro m(x) %}<{{ x }}>{% endmacro %}{{ m(c) }}{{ m('a') }}", ["template", "caller", "template"]),
    ("{% macro m() %}<{{ caller() }}>{% endmacro %}{% call m() %}{{ c }}{% endcall %}", ["template", "caller", "template"]),
    ("{{ ('A\n' ~ c) | indent(2) }}", ["template", "caller"]), ("{{ '{}{}'.format('A', c) }}", ["template", "caller"])])
def test_mixed_text_keeps_the_origin_of_each_byte(template, want):
    assert [origin for _, origin in runs("{% set c = messages[0].content %}" + template, messages=USER)] == want


# Bounds

HOSTILE = {
    "endless recursion": "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
    "two macros": "{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{{ a() }}{{ a() }}{% endmacro %}{{ a() }}",
    "nested loops": "{% for a in range(99999) %}{% for b in range(99999) %}{% for c in range(99999) %}x{% endfor %}{% endfor %}{% endfor %}",
    "doubling text": "{% set ns = namespace(x='abcdefgh') %}{% for i in range(99) %}{% set ns.x = ns.x + ns.x %}{% endfor %}{{ ns.x }}",
    "doubling list": "{% set ns = namespace(x=[1]) %}{% for i in range(99) %}{% set ns.x = ns.x + ns.x %}{% endfor %}{{ ns.x }}",
    "growing copies": "{% set ns = namespace(x='') %}{% for i in range(99999) %}{% set ns.x = 'abc' + ns.x %}{% endfor %}",
    "repeated text": "{{ 'x' * 999999999999 }}", "repeated list": "{{ [1] * 999999999999 }}", "wide format": "{{ '%999999999d' % 1 }}",
    "padding": "{{ 'x'.center(999999999999) }}", "replace": "{{ ('a' * 99999) | replace('a', 'b' * 99999) }}",
    "joined": "{{ (['a' * 99999] * 9999) | join }}", "tojson": "{{ (['a' * 9999] * 99999) | tojson }}",
    "deep list": "{% set ns = namespace(x=[]) %}{% for i in range(9999) %}{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x }}",
    "deep comparison": "{% set ns = namespace(x=[], y=[]) %}{% for i in range(9999) %}{% set ns.x = [ns.x] %}{% set ns.y = [ns.y] %}{% endfor %}{{ ns.x == ns.y }}",
    "deep indent": "{% set ns = namespace(x=[]) %}{% for i in range(900) %}{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x | tojson(indent=99999) }}",
    "wide tree": "{% set ns = namespace(x='ab') %}{% for i in range(99) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x }}",
    "wide equality": "{% set ns = namespace(x=[1], y=[1]) %}{% for i in range(99) %}{% set ns.x = [ns.x, ns.x] %}{% set ns.y = [ns.y, ns.y] %}{% endfor %}{{ ns.x == ns.y }}",
    "count": "{{ ('a' * 9999999).count('a') }}{{ ('a' * 9999999) | wordcount }}" * 99, "strip": "{{ ('a' * 999999).strip('b' * 999999 + 'a') }}",
    "find": "{% for i in range(99999) %}{{ ('a' * 99999).find('b') }}{% endfor %}", "find last": "{{ ('a' * 9999999).rfind('b' + 'a' * 999999) }}",
    "keys": "{% set ns = namespace(d={}) %}{% for i in range(99999) %}{% set ns.d = dict(ns.d, **{i | string: 1}) %}{% endfor %}",
    "power": "{{ 10 ** 999999999 }}", "sorting": "{% for i in range(9999) %}{% set x = range(99999) | sort %}{% endfor %}",
    "recursive loop": "{% for i in [[1]] recursive %}{{ loop([i]) }}{% endfor %}", "unique": "{% for i in range(9999) %}{{ range(9999) | unique | list | length }}{% endfor %}",
    "slices": "{% for i in range(99999) %}{{ ('é' * 99999)[99998] }}{% endfor %}",
}


def processor_seconds(*jobs):
    """Of the child process: what else the machine does counts little."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    answers = render_all(jobs)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, answers


@pytest.fixture(scope="module")
def all_work():
    """What a template takes that does nothing but loop until the work it is allowed is used up."""
    seconds, answers = processor_seconds((HOSTILE["nested loops"], {}))
    assert "work" in answers[0]["error"]
    return seconds


@pytest.mark.parametrize("template", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_template_ends_in_an_error_soon(template, all_work):
    seconds, answers = processor_seconds((template, {}))
    assert "error" in answers[0], answers[0]["text"][:100]
    assert seconds < 10 * all_work


@pytest.mark.parametrize("open, middle, close", [("(", "1", ")"), ("[", "1", "]"), ("{1:", "1", "}"), ("-", "1", ""), ("not ", "1", ""),
                                                 ("a[", "1", "]"), ("f(", "1", ")"), ("a if ", "1", ""), ("", "a", ".b"), ("", "a", "|trim"),
                                                 ("1 if 1 else ", "1", ""), ("", "1", " + 1"), ("", "1", " and 1"), ("", "1", " ~ 1")])
def test_nesting_without_end_never_overflows_the_stack(open, middle, close):
    answer = render("{{ " + open * 50000 + middle + close * 50000 + " }}")
    assert "text" in answer or "nested too deeply" in answer["error"] or "work" in answer["error"], answer


@pytest.mark.parametrize("open, close", [("{% if 1 %}", "{% endif %}"), ("{% for i in [1] %}", "{% endfor %}"), ("{% macro m() %}", "{% endmacro %}"),
                                         ("{% set x %}", "{% endset %}"), ("{% filter trim %}", "{% endfilter %}"), ("{% with %}", "{% endwith %}"),
                                         ("{% generation %}", "{% endgeneration %}"), ("{% if 0 %}{% else %}", "{% endif %}")])
def test_statements_nested_without_end_are_refused(open, close):
    assert "nested too deeply" in error(open * 5000 + close * 5000)


def test_deep_json_is_refused():
    line = '{"template": "{{ x }}", "now": 0, "variables": {"x": %s}}' % ("[" * 1500 + "]" * 1500)
    assert "nested too deeply" in answer_lines(line)[0]["error"]


def test_a_long_chat_renders():
    messages = [{"role": "user" if i % 2 == 0 else "assistant", "content": "word " * 200} for i in range(2000)]
    template = "{% set ns = namespace(out='') %}{% for m in messages %}{% set ns.out = ns.out + '<' + m.role + '>' + m.content %}{% endfor %}{{ ns.out }}"
    assert len(text(template, messages=messages)) > 2000000


def test_one_long_message_renders():
    content = "é" * 1000000
    assert text("{{ messages[0].content | trim }}{{ messages[0].content.split('x')[0] | length }}",
                messages=[{"role": "user", "content": content}]) == content + "1000000"


def test_work_grows_linearly_with_the_chat():
    template = "{% for m in messages %}<{{ m.role }}>{{ m.content | trim }}{{ m | tojson }}{% endfor %}"

    def seconds(n):
        return processor_seconds((template, {"messages": [{"role": "user", "content": "hello there " * 20}] * n}))[0]

    seconds(100)
    assert min(seconds(8000) for _ in range(3)) < 4 * min(seconds(4000) for _ in range(3)) + 0.05
