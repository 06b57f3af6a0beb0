"""/openapi.json beside the table of endpoints and beside what the server replies."""
import json
import re
from pathlib import Path

import jsonschema
import pytest

from server import Server, needs_smollm2

pytestmark = needs_smollm2
ROOT = Path(__file__).resolve().parents[2]
SOURCE = json.loads((ROOT / "src/server/api/openapi.json").read_text())
MODEL = "smollm2"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with Server("--alias", MODEL, "--state-dir", tmp_path_factory.mktemp("state")) as s:
        yield s


def operations():
    return [(method.upper(), path, what) for path, methods in SOURCE["paths"].items() for method, what in methods.items()]


def check(value, schema):
    """`$ref`s lead into the whole document."""
    resolver = {"$ref": "#/" + schema, "components": SOURCE["components"], "paths": SOURCE["paths"]}
    jsonschema.Draft202012Validator(resolver).validate(value)


def pointer(path, method, *rest):
    escaped = [str(p).replace("~", "~0").replace("/", "~1") for p in ("paths", path, method.lower(), *rest)]
    return "/".join(escaped)


def test_the_server_shows_its_description(server):
    assert server.get("/openapi.json").json() == SOURCE


def test_every_endpoint_is_described_and_nothing_else():
    table = re.findall(r'\{"(GET|POST|DELETE|PUT)", "([^"]+)"', (ROOT / "src/server/endpoints.c").read_text())
    assert sorted(table) == sorted((method, path) for method, path, _ in operations())


def test_schemas_are_schemas():
    for schema in SOURCE["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)


@pytest.mark.parametrize("method, path", [(m, p) for m, p, _ in operations() if "{" not in p])
def test_a_reply_is_as_described(server, method, path):
    what = SOURCE["paths"][path][method.lower()]
    body = what.get("requestBody", {}).get("content", {}).get("application/json", {}).get("example")
    if body is not None:
        check(body, pointer(path, method, "requestBody", "content", "application/json", "schema"))
        body = json.loads(json.dumps(body).replace("MODEL", MODEL))
    reply = server.request(method, path, body)
    refused = {"/infill": 400, "/v1/load_lora_adapter": 403, "/v1/unload_lora_adapter": 403, "/v1/files": 400, "/v1/batches": 400}
    if method == "POST" and path in refused:  # no tokens for it, not allowed, no form, no such file
        assert reply.status == refused[path]
    else:
        assert reply.status == 200, reply.body
    kind, = [k for k in what["responses"][str(reply.status)]["content"] if not k.startswith(("text/event", "application/x-"))]
    assert kind == "*/*" or reply.headers["content-type"].startswith(kind)
    if kind == "application/json":
        check(reply.json(), pointer(path, method, "responses", reply.status, "content", kind, "schema"))


@pytest.mark.parametrize("method, path", [(m, p) for m, p, w in operations() if "requestBody" in w])
def test_an_error_is_as_described(server, method, path):
    wrong = b"[5]" if path == "/lora-adapters" else b"[]"
    for body in (b"{", wrong, b'{"model": 5}', b'{"model": "other", "messages": [], "prompt": "a", "input": "a"}'):
        reply = server.request(method, path, body)
        assert reply.status in (400, 403, 404)
        check(reply.json(), pointer(path, method, "responses", reply.status, "content", "application/json", "schema"))


def test_what_is_not_there_is_not_found(server):
    for method, path in [("GET", "/v1/responses/resp_0"), ("DELETE", "/v1/responses/resp_0"),
                         ("POST", "/v1/responses/resp_0/cancel"), ("GET", "/v1/models/other"), ("GET", "/web/none"), ("GET", "/v1/files/file-0"), ("DELETE", "/v1/files/file-0"),
                         ("GET", "/v1/files/file-0/content"), ("GET", "/v1/batches/batch_0"),
                         ("POST", "/v1/batches/batch_0/cancel")]:
        assert server.request(method, path).status == 404
