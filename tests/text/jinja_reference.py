"""jinja2 set up as transformers sets it up for chat templates, and our own renderer beside it."""
import functools
import json
import os
import subprocess
from datetime import datetime
from pathlib import Path

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("MILLRACE_BUILD", ROOT / "build/release"))
SHARED = Path(os.environ.get("MILLRACE_SHARED", ROOT.parent / "shared"))
NOW = 1700000000


class Generation(jinja2.ext.Extension):
    """{% generation %} ... {% endgeneration %} renders its body, in a scope of its own."""
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

    def _body(self, caller):
        return caller()


class CallableDict:
    def __call__(self, *args, **kwargs):
        return dict(*args, **kwargs)

    def fromkeys(self, *args, **kwargs):
        return dict.fromkeys(*args, **kwargs)


class Namespace(jinja2.utils.Namespace):
    """A namespace whose attributes do not begin with an underscore."""
    def __init__(*args, **kwargs):
        attributes = dict(*args[1:], **kwargs)
        for name in attributes:
            Namespace.check(name)
        jinja2.utils.Namespace.__init__(args[0], attributes)

    def __setitem__(self, name, value):
        Namespace.check(name)
        jinja2.utils.Namespace.__setitem__(self, name, value)

    @staticmethod
    def check(name):
        if isinstance(name, str) and name.startswith("_"):
            raise jinja2.exceptions.SecurityError(name)


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def to_json(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def environment():
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
    env.filters["tojson"] = to_json
    env.globals.update(raise_exception=raise_exception, dict=CallableDict(), namespace=Namespace,
                       strftime_now=lambda f: datetime.fromtimestamp(NOW).strftime(f))
    return env


ENVIRONMENT = environment()


@functools.lru_cache(maxsize=4)
def compiled(template):
    return ENVIRONMENT.from_string(template)


def reference(template, variables):
    """The text, or None where the reference fails."""
    try:
        return compiled(template).render(**variables)
    except Exception:
        return None


def answer_lines(lines):
    r = subprocess.run([BUILD / "tests/render_templates"], input=lines.encode(), capture_output=True, timeout=600)
    assert r.returncode == 0, r.stderr.decode()[-4000:]
    return [json.loads(line) for line in r.stdout.splitlines()]


def render_all(jobs):
    """One answer ({"text", "runs"} or {"error", "stage"}) for each (template, variables)."""
    answers = answer_lines("\n".join(json.dumps({"template": t, "variables": v, "now": NOW}) for t, v in jobs))
    assert len(answers) == len(jobs)
    return answers


def render(template, **variables):
    return render_all([(template, variables)])[0]
