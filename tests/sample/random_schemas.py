"""Random JSON schemas within what is understood, and instances that obey them or just do not."""
import json
import random
import re
import string

WORDS = ["id", "name", "v", "a/b", "x~y", "naïve", "日本", "é", "long_property_name", "a b", 'q"q', "back\\slash", "tab\t", "0", "😀"]
PATTERNS = [r"^[a-z]+$", r"[0-9]{3}", r"^abc", r"abc$", r"^\d{3}$", r"^[\w-]+$", r"\S", r"^a\/b$", r"^(a|b)c?$", r"^.{2}$",
            r'^"$', r"^\\$", r'^[^"]*$', r"^(foo|bar)-[A-F0-9]{2,4}$", r"^[^\x00-\x1f]{1,5}$", r"^$", r"a|^b$", r"^\u00e9+$"]
FORMATS = ["date", "time", "date-time", "uuid", "email", "ipv4", "ipv6", "hostname", "duration"]
SCALARS = [None, True, False, 0, 1, -7, 3.5, 1e-7, 12345678901, "", "x", "a\"b\\c\n", "日本", [1, "a"], {"k": [None]}]


class Schemas:
    """A source of schemas; everything follows from the seed."""

    def __init__(self, seed):
        self.r = random.Random(seed)

    def text(self, low=0, high=6):
        alphabet = string.ascii_letters + string.digits + " -_'\"\\/\n\té日😀{}[],:"
        return "".join(self.r.choice(alphabet) for _ in range(self.r.randint(low, high)))

    def string(self):
        r, s = self.r, {"type": "string"}
        kind = r.random()
        if kind < 0.3:
            s["pattern"] = r.choice(PATTERNS)
            if s["pattern"].endswith("+$") and r.random() < 0.5:
                s["maxLength"] = r.randint(1, 6)
        elif kind < 0.45:
            s["format"] = r.choice(FORMATS)
        elif kind < 0.8:
            low = r.choice([0, 1, 2, 5, 40])
            if r.random() < 0.6:
                s["minLength"] = low
            if r.random() < 0.6:
                s["maxLength"] = low + r.choice([0, 1, 3, 200])
        return s

    def number(self):
        r = self.r
        s = {"type": r.choice(["integer", "number"])}
        if r.random() < 0.25:
            return s
        integer = s["type"] == "integer"
        low = r.choice([-1000, -10.5, -5, -1, -0.25, 0, 0.1, 1, 3, 7.75, 100, 99999]) if not integer else r.randint(-300, 300)
        high = low + (r.choice([0, 1, 2.5, 10, 1000]) if not integer else r.choice([0, 1, 5, 9, 1000, 10 ** 12]))
        low, high = round(low, 3), round(high, 3)
        if low == high or r.random() < 0.5:
            s["minimum"] = low
            s["maximum"] = high
        else:
            s["exclusiveMinimum"] = low - 1
            if r.random() < 0.7:
                s["exclusiveMaximum"] = high + 1
        for key in list(s):
            if key != "type" and len(s) > 2 and r.random() < 0.3:
                del s[key]
        if integer and r.random() < 0.3:
            s["multipleOf"] = r.choice([1, 2, 3, 7, 10, 25])
            s.pop("maximum", None)
            s.pop("exclusiveMaximum", None)
        return s

    def array(self, depth):
        r, s = self.r, {"type": "array"}
        if r.random() < 0.8:
            s["items"] = self.schema(depth - 1)
        if r.random() < 0.3:
            s["prefixItems"] = [self.schema(depth - 1) for _ in range(r.randint(1, 3))]
            if r.random() < 0.4:
                s["items"] = False
        low = r.randint(0, 3)
        most = len(s["prefixItems"]) if s.get("items") is False else 99
        if r.random() < 0.5:
            s["minItems"] = min(low, most)
        if r.random() < 0.5:
            s["maxItems"] = low + r.randint(0, 3)
        return s

    def object(self, depth):
        r, s = self.r, {"type": "object"}
        names = r.sample(WORDS, r.randint(0, 4))
        if names:
            s["properties"] = {n: self.schema(depth - 1) for n in names}
            s["required"] = [n for n in names if r.random() < 0.5]
        kind = r.random()
        if kind < 0.6:
            s["additionalProperties"] = False
        elif kind < 0.75:
            s["additionalProperties"] = self.schema(depth - 1)
        if r.random() < 0.1:
            s["patternProperties"] = {r.choice(["^x-", "[0-9]$"]): self.schema(depth - 1)}
        return s

    def schema(self, depth=3):
        r = self.r
        kind = r.random()
        if depth <= 0 or kind < 0.35:
            return r.choice([self.string, self.string, self.number, self.number, self.plain])()
        if kind < 0.6:
            return self.object(depth)
        if kind < 0.75:
            return self.array(depth)
        if kind < 0.85:
            return {"anyOf": [self.schema(depth - 1) for _ in range(r.randint(1, 3))]}
        if kind < 0.9:
            return {"oneOf": [{"type": "string", "enum": ["a", "b"]}, self.number(), {"type": "object", "properties": {
                "kind": {"const": "x"}, "v": self.schema(depth - 2)}, "required": ["kind"], "additionalProperties": False}]}
        if kind < 0.95:
            return {"allOf": [{"type": "object", "properties": {"p": self.schema(depth - 1)}, "required": ["p"]},
                              {"properties": {"q": self.schema(depth - 1)}}]}
        return self.recursive()

    def plain(self):
        r = self.r
        return r.choice([{"type": "boolean"}, {"type": "null"}, {"const": r.choice(SCALARS)}, {}, True,
                         {"enum": r.sample(SCALARS, 3)}, {"type": ["string", "null"]}, {"type": ["integer", "boolean"]},
                         {"not": {"type": "string"}, "type": ["string", "number"]}])

    def recursive(self):
        return {"$ref": "#/$defs/node"}

    def root(self):
        s = self.schema()
        if s is True:
            s = {}
        s = dict(s)
        s["$defs"] = {"node": {"type": "object", "properties": {"v": self.number(),
                      "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}},
                      "required": ["v", "next"], "additionalProperties": False}}
        return s


class Instances:
    """Values that obey a schema of Schemas, made by reading it."""

    def __init__(self, root, seed):
        self.root = root
        self.r = random.Random(seed)
        self.s = Schemas(seed + 1)

    def string(self, s):
        r = self.r
        if "pattern" in s:
            for _ in range(300):
                t = r.choice(["a", "b", "abc", "a/b", "ac", "bc", "123", "foo-AB", "bar-12F", '"', "\\", "xabc", "abcx", "", "é",
                              "éé", "ab", "b", "a-b_c", self.s.text()])
                if re.search(s["pattern"], t, re.A) and len(t) <= s.get("maxLength", 99) and not t.endswith("\n"):
                    return t
            raise ValueError
        if "format" in s:
            return {"date": "2024-02-29", "time": "23:59:59.5Z", "date-time": "1999-12-31T00:00:00+01:30",
                    "uuid": "123e4567-e89b-12d3-a456-426614174000", "email": "a.b+c@example.org", "ipv4": "255.0.19.200",
                    "ipv6": r.choice(["::", "1::", "::1", "2001:db8::8a2e:370:7334", "1:2:3:4:5:6:7:8"]),
                    "hostname": "www.example-1.org", "duration": r.choice(["P1D", "PT5M", "P1Y2M3DT4H5M6S", "P3W"])}[s["format"]]
        low = s.get("minLength", 0)
        return self.s.text(low, min(s.get("maxLength", low + 5), low + 5))

    def number(self, s):
        r = self.r
        low = s.get("minimum", s.get("exclusiveMinimum"))
        high = s.get("maximum", s.get("exclusiveMaximum"))
        low = (high - 100 if high is not None else -100) if low is None else low
        high = low + 200 if high is None else high
        for _ in range(2000):
            x = r.choice([low, high, r.uniform(low, high), round(r.uniform(low, high)), round(r.uniform(low, high), 2)])
            if s["type"] == "integer" or "multipleOf" in s:
                x = round(x)
            elif isinstance(x, float):
                x = round(x, 9)
            if not (s.get("minimum", x) <= x <= s.get("maximum", x)) or x % s.get("multipleOf", 1) and "multipleOf" in s:
                continue
            if x <= s.get("exclusiveMinimum", x - 1) or x >= s.get("exclusiveMaximum", x + 1) or "e" in json.dumps(x):
                continue
            return 0 if x == 0 else x
        raise ValueError

    def make(self, s, depth=8):
        r = self.r
        if depth < 0:
            raise ValueError
        if s is True or s == {}:
            return r.choice(SCALARS)
        if s is False:
            raise ValueError
        if "$ref" in s:
            node = self.root["$defs"]["node"]
            return self.make(node, depth - 1) if depth > 2 else {"v": self.number(node["properties"]["v"]), "next": None}
        if "const" in s:
            return s["const"]
        if "enum" in s:
            return r.choice(s["enum"])
        for key in ("anyOf", "oneOf"):
            if key in s:
                return self.make(r.choice(s[key]), depth - 1)
        if "allOf" in s:
            v = {"p": self.make(s["allOf"][0]["properties"]["p"], depth - 1)}
            if r.random() < 0.5:
                v["q"] = self.make(s["allOf"][1]["properties"]["q"], depth - 1)
            return v
        kind = s.get("type", "any")
        if "not" in s:
            return 5
        if isinstance(kind, list):
            kind = r.choice(kind)
        if kind == "string":
            return self.string(s)
        if kind in ("integer", "number"):
            return self.number({**s, "type": kind})
        if kind == "boolean":
            return r.random() < 0.5
        if kind == "null":
            return None
        if kind == "array":
            return self.array(s, depth)
        return self.object(s, depth)

    def array(self, s, depth):
        prefix = s.get("prefixItems", [])
        low, high = s.get("minItems", 0), s.get("maxItems", 99)
        if s.get("items") is False:
            high = min(high, len(prefix))
        n = self.r.randint(low, max(low, min(high, low + 3)))
        return [self.make(prefix[i] if i < len(prefix) else s.get("items", True), depth - 1) for i in range(n)]

    def object(self, s, depth):
        v = {}
        for name, sub in s.get("properties", {}).items():
            patterns = [p for p in s.get("patternProperties", {}) if re.search(p, name)]
            if patterns:
                raise ValueError  # two schemas at once: not made here
            if name in s.get("required", []) or self.r.random() < 0.5:
                v[name] = self.make(sub, depth - 1)
        if s.get("additionalProperties", True) is not False and self.r.random() < 0.5:
            v["zz"] = self.make(s.get("additionalProperties", True), depth - 1)
        return v


def spoil(value, r):
    """A value like the given one, with something changed; it may obey the schema or not."""
    if isinstance(value, dict) and value and r.random() < 0.7:
        key = r.choice(list(value))
        kind = r.random()
        if kind < 0.3:
            return {k: v for k, v in value.items() if k != key}
        if kind < 0.5:
            return {**value, "unknown": 1}
        return {k: spoil(v, r) if k == key else v for k, v in value.items()}
    if isinstance(value, list) and value and r.random() < 0.7:
        i = r.randrange(len(value))
        return r.choice([value[:i] + value[i + 1:], value + [value[i]], value[:i] + [spoil(value[i], r)] + value[i + 1:]])
    if isinstance(value, str):
        return r.choice([value + "x", value[1:], value + "0" * 50, 0, value.upper()])
    if isinstance(value, bool) or value is None:
        return r.choice([0, "", None, True])
    if isinstance(value, (int, float)):
        return r.choice([value + 1, value - 1, -value, value * 1000, value + 0.5, str(value)])
    return r.choice([None, 1, "x", [], {}])
