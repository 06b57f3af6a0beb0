"""Spans by OTLP over HTTP: what a collector gets, and what happens when there is none."""
import http.server
import json
import threading
import urllib.request

import pytest

from server import Server, needs_smollm2

pytestmark = needs_smollm2

PROMPT = {"prompt": "The capital of France is", "n_predict": 8, "temperature": 0, "ignore_eos": True}
TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


class Collector(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert (self.path, self.headers["Content-Type"]) == ("/v1/traces", "application/json")
        resource = body["resourceSpans"][0]
        assert {"key": "service.name", "value": {"stringValue": "millrace"}} in resource["resource"]["attributes"]
        self.server.spans += resource["scopeSpans"][0]["spans"]
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture
def collector():
    s = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    s.spans = []
    threading.Thread(target=s.serve_forever, daemon=True).start()
    yield s
    s.shutdown()
    s.server_close()


def attributes(span):
    return {a["key"]: next(iter(a["value"].values())) for a in span["attributes"]}


def test_a_request_is_a_span_with_its_stages_below(collector):
    with Server("--otlp-endpoint", f"http://127.0.0.1:{collector.server_port}/") as s:
        r = s.post("/completion", PROMPT, headers={"traceparent": f"00-{TRACE}-{PARENT}-01", "x-request-id": "mine"})
        assert r.status == 200 and TRACE in r.headers["traceparent"]
        s.post("/completion", PROMPT, headers={"traceparent": f"00-{TRACE}-{PARENT}-00"})  # not sampled
        s.post("/completion", b"{", headers={"traceparent": "00-xyz"})  # neither JSON nor a trace
        s.get("/health")
        assert s.end() == 0
    whole = [x for x in collector.spans if x["kind"] == 2]
    assert [attributes(x)["http.response.status_code"] for x in whole] == ["200", "400"]
    first, second = whole
    assert (first["traceId"], first["parentSpanId"], first["name"]) == (TRACE, PARENT, "POST /completion")
    assert attributes(first)["gen_ai.usage.output_tokens"] == "8" and attributes(first)["millrace.request_id"] == "mine"
    assert second["traceId"] != TRACE and "parentSpanId" not in second
    below = [x for x in collector.spans if x.get("parentSpanId") == first["spanId"]]
    assert {"prefill", "decode"} <= {x["name"] for x in below} and len({x["spanId"] for x in collector.spans}) == len(collector.spans)
    assert all(x["traceId"] == TRACE for x in below)
    begin, end = int(first["startTimeUnixNano"]), int(first["endTimeUnixNano"])
    assert sum(int(x["endTimeUnixNano"]) - int(x["startTimeUnixNano"]) for x in below) == end - begin
    assert all(begin <= int(x["startTimeUnixNano"]) <= int(x["endTimeUnixNano"]) <= end for x in below)


def test_a_collector_that_is_not_there_costs_its_spans_only(collector):
    collector.server_close()
    with Server("--otlp-endpoint", f"http://127.0.0.1:{collector.server_port}") as s:
        assert s.post("/completion", PROMPT).status == 200
        s.wait_until(lambda: "\nmillrace_trace_requests_dropped_total 1\n" in s.get("/metrics").body.decode())
        assert s.post("/completion", PROMPT).status == 200
        assert s.end() == 0


def test_spans_that_were_taken_are_counted(collector):
    with Server("--otlp-endpoint", f"http://127.0.0.1:{collector.server_port}/v1/traces") as s:
        s.post("/completion", PROMPT)
        s.wait_until(lambda: "\nmillrace_trace_spans_sent_total 0\n" not in s.get("/metrics").body.decode())
        assert urllib.request.urlopen(s.url + "/health").status == 200
    assert collector.spans
