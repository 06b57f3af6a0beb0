"""Texts that the masks of JSON schemas allow, against the validator of the PyPI package jsonschema."""
import ipaddress
import json
import os
import random
import re
import subprocess
import uuid
from datetime import date, datetime, time
from pathlib import Path

import jsonschema
import pytest
from random_schemas import Instances, Schemas, spoil

BUILD = os.environ.get("MILLRACE_BUILD")
N_CHECKED = 40  # schemas whose masks are compared with accepting every token


def run_pipe(requests, vocabulary=None):
    program = [str(Path(BUILD) / "tests" / "constraint_pipe")] + ([str(vocabulary)] if vocabulary else [])
    done = subprocess.run(program, input="".join(json.dumps(r) + "\n" for r in requests), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.split("\n") if line]


FORMATS = jsonschema.FormatChecker(formats=())


def checks(name, raises=ValueError):
    return FORMATS.checks(name, raises=raises)


checks("date")(lambda s: not isinstance(s, str) or bool(date.fromisoformat(s)))
checks("time")(lambda s: not isinstance(s, str) or time.fromisoformat(s).tzinfo is not None)
checks("date-time")(lambda s: not isinstance(s, str) or datetime.fromisoformat(s).tzinfo is not None)
checks("uuid")(lambda s: not isinstance(s, str) or str(uuid.UUID(s)) == s.lower())
checks("ipv4")(lambda s: not isinstance(s, str) or bool(ipaddress.IPv4Address(s)))
checks("ipv6")(lambda s: not isinstance(s, str) or ipaddress.IPv6Address(s) is not None)
checks("email")(lambda s: not isinstance(s, str) or re.fullmatch(r"[^@\s]+@[^@\s]+", s) is not None)
checks("hostname")(lambda s: not isinstance(s, str) or re.fullmatch(r"(?!-)[A-Za-z0-9.-]{1,253}(?<!-)", s) is not None)
checks("duration")(lambda s: not isinstance(s, str) or re.fullmatch(r"P(?!$)(\d+Y)?(\d+M)?(\d+W)?(\d+D)?(T(?=\d)(\d+H)?(\d+M)?"
                                                                    r"(\d+S)?)?", s) is not None)


def pattern(_, text, instance, __):
    """As ECMA-262 has it: \\d and \\w are ASCII, $ is the very end."""
    ecma = re.sub(r"\$(?=$|\||\))", r"\\Z", text)
    if isinstance(instance, str) and not re.search(ecma, instance, re.A):
        yield jsonschema.ValidationError(f"{instance!r} does not match {text!r}")


Validator = jsonschema.validators.extend(jsonschema.Draft202012Validator, {"pattern": pattern})


def is_valid(schema, value):
    return Validator(schema, format_checker=FORMATS).is_valid(value)


def compact(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def unique_pairs(pairs):
    assert len({k for k, _ in pairs}) == len(pairs)
    return dict(pairs)


def requests_for(seeds):
    """For each seed a schema, texts that obey it, and texts that do not."""
    for seed in seeds:
        schema = Schemas(seed).root()
        made, r, good, bad = Instances(schema, seed), random.Random(seed), [], []
        for _ in range(4):
            try:
                value = made.make(schema)
            except ValueError:
                continue
            assert is_valid(schema, value), (schema, value)
            good.append(value)
            other = spoil(value, r)
            if not is_valid(schema, other):
                bad.append(other)
        yield {"kind": "schema", "text": json.dumps(schema), "accept": [compact(v) for v in good + bad], "n_good": len(good),
               "walks": 3, "steps": 30, "seed": seed, "check": seed < N_CHECKED}


def check(request, answer):
    schema = json.loads(request["text"])
    if request["n_good"] == 0 and "no finite text" in answer.get("error", ""):
        return  # bounds without a multiple between them
    assert "error" not in answer, (answer["error"], schema)
    assert "wrong" not in answer, schema
    for i, (text, accepted) in enumerate(zip(request["accept"], answer["accept"])):
        assert accepted == (i < request["n_good"]), (text, accepted, schema)
    for text in filter(None, answer["walks"]):
        value = json.loads(text)
        errors = list(Validator(schema, format_checker=FORMATS).iter_errors(value))
        assert not errors, (text, errors[0].message, schema)


def check_schemas(n):
    """The first n seeds: texts out of masks obey, and texts that obey are accepted."""
    n_ended = 0
    for start in range(0, n, 500):
        requests = list(requests_for(range(start, min(start + 500, n))))
        for request, answer in zip(requests, run_pipe(requests), strict=True):
            check(request, answer)
            n_ended += sum(w is not None for w in answer.get("walks", []))
    assert n_ended > 2.8 * n  # a random walk may never meet what a pattern waits for


def test_random_schemas():
    check_schemas(400)


REGEX_PARTS = ["a", "b", "[ab]", "[^a]", ".", r"\d", r"\w", r"\W", r"\s", "é", "日", r"\x41", r"\u00e9", r"\.", "-", "[a-c日-本]"]


def random_regex(r, depth=3):
    kind = r.random()
    if depth == 0 or kind < 0.4:
        return r.choice(REGEX_PARTS)
    if kind < 0.6:
        return random_regex(r, depth - 1) + random_regex(r, depth - 1)
    if kind < 0.7:
        return f"(?:{random_regex(r, depth - 1)}|{random_regex(r, depth - 1)})"
    if kind < 0.8:
        return r.choice(["^", ""]) + random_regex(r, depth - 1) + r.choice(["$", ""])
    return f"(?:{random_regex(r, depth - 1)})" + r.choice(["*", "+", "?", "{2}", "{1,3}", "{2,}", "*?"])


def as_python(text):
    space = r"\t-\r \xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
    return text.replace("$", r"\Z").replace(r"\s", f"[{space}]").replace(".", "[^\n\r\u2028\u2029]").replace(
        "\\[^\n\r\u2028\u2029]", r"\.")


def check_regular_expressions(n):
    r = random.Random(7)
    requests, patterns = [], []
    for seed in range(n):
        text = random_regex(r)
        python = re.compile(as_python(text), re.A)
        strings = ["".join(r.choice("abcAé日本7.- \n_") for _ in range(r.randint(0, 6))) for _ in range(30)]
        patterns.append(python)
        requests.append({"kind": "regex", "text": text, "accept": strings, "walks": 3, "steps": 8, "seed": seed, "check": seed < 40})
        patterns.append(python)
        requests.append({"kind": "schema", "text": json.dumps({"type": "string", "pattern": text}), "walks": 3, "steps": 8, "seed": seed,
                         "accept": [compact(s) for s in strings], "strings": strings})
    for request, answer, python in zip(requests, run_pipe(requests), patterns, strict=True):
        whole = request["kind"] == "regex"
        match = python.fullmatch if whole else python.search
        if "error" in answer:
            assert "matches no text" in answer["error"] or "no finite text" in answer["error"], (request["text"], answer)
            assert not any(match(s) for s in request.get("strings", request["accept"])), request["text"]
            continue
        assert "wrong" not in answer, request["text"]
        for text, accepted in zip(request.get("strings", request["accept"]), answer["accept"], strict=True):
            assert accepted == (match(text) is not None), (request["text"], text, accepted)
        for walk in filter(None, answer["walks"]):
            assert match(walk if whole else json.loads(walk)), (request["text"], walk)


def test_random_regular_expressions():
    check_regular_expressions(300)


def accept(kind, text, texts):
    answer = run_pipe([{"kind": kind, "text": text if isinstance(text, str) else json.dumps(text), "accept": texts, "walks": 5,
                        "steps": 20, "seed": 3, "check": True}])[0]
    assert "error" not in answer and "wrong" not in answer, answer
    return answer


def error_of(kind, text):
    return run_pipe([{"kind": kind, "text": text if isinstance(text, str) else json.dumps(text)}])[0].get("error")


@pytest.mark.parametrize("schema, good, bad", [
    ({"type": "string", "pattern": "^[a-z]+$", "maxLength": 3}, ["abc"], ["abcd", ""]),
    ({"type": "number", "exclusiveMinimum": 0, "maximum": 1}, [1, 0.5, 0.0001], [0, 1.11, -0.5]),
    ({"type": "integer", "minimum": -5, "maximum": -3}, [-5, -4, -3], [-2, -6, 3]),
    ({"type": "integer", "minimum": -5}, [-5, 0, 7000], [-6, -50]),
    ({"type": "number", "minimum": 1, "maximum": 5}, [1, 5, 4.99], [5.7, 0.9]),
    ({"type": "string", "minLength": 2, "maxLength": 2}, ["日本", "ab", "😀é"], ["日", "日本語"]),
    ({"type": "integer", "multipleOf": 7}, [0, 49, -14], [1, 48]),
    ({"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 3}, [[1, 2], [1, 2, 3]], [[1], [1, 2, 3, 4]]),
    ({"type": "string", "format": "date"}, ["2024-02-29"], ["2023-02-29", "2024-13-01"]),
    ({"type": "object", "additionalProperties": False}, [{}], [{"a": 1}]),
    ({"type": "object", "additionalProperties": True}, [{}, {"a": 1}], []),
    ({"type": "object", "patternProperties": {"^x": {"type": "integer"}}, "additionalProperties": False}, [{"xy": 1}],
     [{"xy": "s"}, {"y": 1}]),
    ({"oneOf": [{"type": "string"}, {"type": "integer"}]}, ["a", 1], [1.5, None]),
    ({"type": ["string", "null"], "not": {"const": "bad"}}, ["good", None], ["bad"]),
])
def test_no_keyword_is_dropped(schema, good, bad):
    answer = accept("schema", schema, [compact(v) for v in good + bad])
    assert answer["accept"] == [True] * len(good) + [False] * len(bad)
    assert all(is_valid(schema, json.loads(w)) for w in answer["walks"] if w)


@pytest.mark.parametrize("schema, words", [
    ({"type": "array", "uniqueItems": True}, ["uniqueItems", "#"]),
    ({"properties": {"a": {"type": "number", "multipleOf": 0.1}}}, ["multipleOf", "#/properties/a"]),
    ({"oneOf": [{"type": "integer"}, {"type": "number"}]}, ["oneOf"]),
    ({"not": {"type": "object", "required": ["a"]}}, ["not"]),
    ({"properties": {"a/b": {"if": True}}}, ["if", "#/properties/a~1b"]),
    ({"type": "string", "format": "iri"}, ["format", "iri"]),
    ({"type": "notatype"}, ["type", "notatype"]),
    ({"properties": {"value": "bar"}}, ["value", "properties"]),
    ({"properties": []}, ["properties"]),
    ({"minLength": -1, "type": "string"}, ["minLength"]),
    ({"type": "string", "pattern": "(?<=x)a"}, ["pattern", "look-behind"]),
    ({"type": "string", "pattern": "("}, ["pattern"]),
    (False, ["false"]),
    ({"type": "object", "required": ["a"], "additionalProperties": False}, ["no finite text"]),
    ({"$defs": {"A": {"$ref": "#/$defs/A"}}, "$ref": "#/$defs/A"}, ["$ref", "#/$defs/A"]),
    ({"$ref": "#/$defs/none"}, ["$ref", "#/$defs/none"]),
    ({"$ref": "http://example.org/s.json"}, ["$ref", "http://example.org/s.json"]),
    ({"anyOf": [{"$ref": "#"}, {"type": "null"}]}, ["left-recursive"]),
    ({"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]}, ["no finite text"]),
    ('{"a": 1, "a": 2}', ["duplicate"]),
    ('{"type": ', ["line 1"]),
])
def test_what_cannot_be_enforced_is_refused_by_name(schema, words):
    error = error_of("schema", schema)
    assert error is not None
    for word in words:
        assert word in error, error


NODE = {"type": "object", "properties": {"v": {"type": "integer"}, "next": {"anyOf": [{"$ref": "#/$defs/n"}, {"type": "null"}]}},
        "required": ["v", "next"], "additionalProperties": False}


@pytest.mark.parametrize("schema, good, bad", [
    ({"$defs": {"n": NODE}, "$ref": "#/$defs/n"}, [{"v": 1, "next": {"v": 2, "next": None}}], [{"v": 1}, {"v": 1, "next": {}}]),
    ({"type": "object", "properties": {"a": {"anyOf": [{"type": "null"}, {"type": "integer"}]}, "b": {"$ref": "#/properties/a/anyOf/1"}},
      "required": ["a", "b"]}, [{"a": None, "b": 3}], [{"a": None, "b": None}]),
    ({"$defs": {"a/b": {"x~y": {"q r": {"type": "null"}}}}, "$ref": "#/$defs/a~1b/x~0y/q%20r"}, [None], [1]),
    ({"$defs": {"a": {"type": "object", "properties": {"b": {"$ref": "#/$defs/b"}}, "additionalProperties": False},
                "b": {"type": "object", "properties": {"a": {"$ref": "#/$defs/a"}}, "additionalProperties": False}},
      "$ref": "#/$defs/a"}, [{"b": {"a": {"b": {}}}}], [{"a": {}}]),
    ({"$defs": {"i": {"type": "integer"}}, "type": "object", "properties": {"x": {"$ref": "#/$defs/i"}, "y": {"$ref": "#/$defs/i"}}},
     [{"x": 1, "y": 2}], [{"x": 1, "y": "2"}]),
    ({"$defs": {"i": {"type": "integer"}}, "$ref": "#/$defs/i", "minimum": 3}, [3], [2]),
])
def test_references(schema, good, bad):
    answer = accept("schema", schema, [compact(v) for v in good + bad])
    assert answer["accept"] == [True] * len(good) + [False] * len(bad)
    assert all(is_valid(schema, json.loads(w)) for w in answer["walks"] if w)


@pytest.mark.parametrize("text, good, bad", [
    ("[0-9]{3}", ["123", "a1234"], ["12"]), ("^abc", ["abcx"], ["xabc"]), ("abc$", ["xabc"], ["abcx"]), (r"^\d{3}$", ["123"], ["1234", "١٢٣"]),
    (r"^[\w-]+$", ["a-b"], ["a b"]), (r"\S", ["a", " a"], [" ", ""]), (r"^a\/b$", ["a/b"], ["a\\/b"]), ("^(a|b)c?$", ["a", "bc"], ["c"]),
    ("^.{2}$", ["日本", "ab"], ["a", "a\n"]), ('^"$', ['"'], ["\\"]), (r"^\\$", ["\\"], ['"']), ('^[^"]*$', ["", "a\nb"], ['a"b']),
])
def test_patterns_search_the_decoded_value(text, good, bad):
    schema = {"type": "string", "pattern": text}
    answer = accept("schema", schema, [compact(v) for v in good + bad])
    assert answer["accept"] == [True] * len(good) + [False] * len(bad)
    assert all(is_valid(schema, json.loads(w)) for w in answer["walks"] if w)


@pytest.mark.parametrize("kind, text", [("regex", "lamp**"), ("regex", "("), ("regex", "[z-a]"), ("regex", "^(?<=x)*$"), ("regex", r"(a)\1"),
                                        ("regex", "a{3,2}"), ("regex", r"\p{L}"), ("regex", "a)"), ("regex", "[a"), ("regex", "a\\"),
                                        ("grammar", 'root ::= x'), ("grammar", 'root ::= root "a" | "b"'), ("grammar", 'a ::= "b"'),
                                        ("grammar", 'root ::= "a'), ("grammar", 'root ::= [a'), ("grammar", 'root ::= ("a"'),
                                        ("grammar", 'root = "a"'), ("grammar", 'root ::= "a"\nroot ::= "b"'), ("grammar", ""),
                                        ("grammar", 'root ::= a "x"\na ::= b?\nb ::= root'), ("schema", ""), ("choice", "")])
def test_wrong_sources_are_refused(kind, text):
    assert error_of(kind, text)


def test_every_schema_of_any_json_allows_any_json():
    for schema in (True, {}):
        answer = accept("schema", schema, ["{}", "[1,[2]]", '"a\\u00e9\\ud83d\\ude00"', "-1.5e+10", "null", '{"a": {"b": [true, 1]}}'])
        assert all(answer["accept"])
        assert all(json.loads(w) is not NotImplemented for w in answer["walks"] if w)


def test_blanks_are_bounded_and_nothing_follows_the_root():
    good = ['{"a": 1}', '{\n  "a": 1\n}', '{"a":[\n1,\n2]}']
    bad = ['{"a":  1}', '{"a" :1}', '{\n\n"a":1}', ' {}', '{} ', '{}\n', '{' + '\n' + ' ' * 40 + '}', '{\t}', '{\n\n}', '[ \n]']
    assert accept("schema", {}, good + bad)["accept"] == [True] * len(good) + [False] * len(bad)


def test_thousands_of_alternatives_and_large_counts():
    words = [f"word{i}" for i in range(5000)]
    answer = accept("schema", {"enum": words}, ['"word4999"', '"word5000"'])
    assert answer["accept"] == [True, False]
    schema = {"type": "array", "items": {"type": "string", "maxLength": 100000}, "minItems": 1000, "maxItems": 1000000}
    requests = [{"kind": "schema", "text": json.dumps(schema), "accept": [compact(["x" * 5000] * n) for n in (999, 1000)]}]
    assert run_pipe(requests)[0]["accept"] == [False, True]


@pytest.mark.parametrize("depth", [100, 400, 5000])
def test_nesting_is_bounded(depth):
    answer = run_pipe([{"kind": "schema", "text": "{}", "accept": ["[" * depth + "]" * depth]}])[0]
    assert answer["accept"] == [depth <= 400]
    deep = '{"properties":{"a":' * depth + "{}" + "}}" * depth
    answer = run_pipe([{"kind": "schema", "text": deep, "accept": ["{}"]}])[0]
    assert ("error" in answer) == (depth > 1000)
