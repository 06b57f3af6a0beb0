"""A real Prometheus reads /metrics, and counts what was sent; dashboards and rules of deploy/ name what there is."""
import json
import re
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

import pytest

from server import PATIENCE_S, Server, needs_smollm2

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"

needs_prometheus = pytest.mark.skipif(not (shutil.which("prometheus") and shutil.which("promtool")),
                                      reason="Prometheus is not installed")
pytestmark = [needs_smollm2, needs_prometheus]


@pytest.fixture(scope="module")
def server():
    with Server("--latency-target", "600000") as s:
        yield s


class Prometheus:
    """Scrapes one server, twice a second."""

    def __init__(self, server, folder):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.url = f"http://127.0.0.1:{s.getsockname()[1]}"
        targets = [f"127.0.0.1:{server.port}"]
        jobs = [{"job_name": "millrace", "static_configs": [{"targets": targets}]},
                {"job_name": "vllm", "params": {"names": ["vllm"]}, "static_configs": [{"targets": targets}]}]
        config = folder / "prometheus.yml"
        config.write_text(json.dumps({"global": {"scrape_interval": "500ms", "scrape_timeout": "500ms"},
                                      "rule_files": [str(DEPLOY / "alerts.yml")], "scrape_configs": jobs}))
        self.log = open(folder / "log", "w")
        self.process = subprocess.Popen(
            ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={folder / 'data'}",
             f"--web.listen-address={self.url[7:]}", "--log.level=warn"], stdout=self.log, stderr=self.log)

    def get(self, path, **query):
        with urllib.request.urlopen(f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(query)}", timeout=PATIENCE_S) as r:
            return json.load(r)["data"]

    def value(self, expression):
        found = self.get("query", query=expression)["result"]
        return float(found[0]["value"][1]) if found else None

    def wait(self, expression, wanted):
        """A scrape that comes too late, on a busy machine, leaves a gap: the next one fills it."""
        deadline = time.monotonic() + PATIENCE_S
        got = None
        while got != wanted:
            assert time.monotonic() < deadline and self.process.poll() is None, f"{expression} is {got}, not {wanted}"
            try:
                got = self.value(expression)
            except (urllib.error.URLError, ConnectionError):  # it starts
                pass
            time.sleep(0.1)

    def close(self):
        self.process.terminate()
        self.process.wait()
        self.log.close()


@pytest.fixture(scope="module")
def prometheus(server, tmp_path_factory):
    p = Prometheus(server, tmp_path_factory.mktemp("prometheus"))
    yield p
    p.close()


def test_promtool_finds_no_fault(server):
    r = subprocess.run(["promtool", "check", "metrics"], input=server.get("/metrics").body, capture_output=True)
    assert (r.returncode, r.stdout + r.stderr) == (0, b"")


def test_what_was_sent_is_what_prometheus_counts(server, prometheus):
    prometheus.wait("sum(up)", 2)
    prompt = {"prompt": "The capital of France is", "temperature": 0, "ignore_eos": True}
    for n in (3, 7):
        assert server.post("/completion", {**prompt, "n_predict": n}).status == 200
    assert server.post("/completion", b"{").status == 400
    prometheus.wait("sum(millrace_generation_tokens_total)", 10)
    prometheus.wait('sum(millrace_requests_total{outcome="length"})', 2)
    prometheus.wait("sum(millrace_time_to_first_token_seconds_count)", 2)
    prometheus.wait('sum(millrace_http_requests_total{path="/completion",code="400"})', 1)
    prometheus.wait("sum({__name__='vllm:generation_tokens_total'})", 10)
    prometheus.wait("count(histogram_quantile(0.5, sum by (le) (millrace_time_to_first_token_seconds_bucket)) > 0)", 1)
    assert all(r["health"] in ("ok", "unknown") for g in prometheus.get("rules")["groups"] for r in g["rules"])


def names_of(text):
    """Names of series in expressions."""
    found = set(re.findall(r"\b(?:millrace|process)_[a-z0-9_]+", text))
    return {re.sub(r"_(bucket|sum|count)$", "", n) if n.endswith(("_bucket", "_sum", "_count")) else n for n in found}


def dashboard_expressions():
    dashboard = json.loads((DEPLOY / "grafana-dashboard.json").read_text())
    return [t["expr"] for p in dashboard["panels"] for t in p["targets"]]


@pytest.mark.parametrize("text", [(DEPLOY / "alerts.yml").read_text(), "\n".join(dashboard_expressions()),
                                  (ROOT / "docs/metrics.md").read_text()], ids=["alerts", "dashboard", "docs"])
def test_every_name_is_on_the_page(server, text):
    page = server.get("/metrics").body.decode()
    families = set(re.findall(r"^# TYPE (\S+)", page, re.M))
    assert names_of(text) and names_of(text) <= families


def test_the_documentation_has_every_family(server):
    text = (ROOT / "docs/metrics.md").read_text()
    page = server.get("/metrics").body.decode()
    assert [n for n in re.findall(r"^# TYPE (\S+)", page, re.M) if f"`{n}`" not in text] == []


def test_expressions_of_the_dashboard_are_valid(prometheus):
    prometheus.wait("count(up)", 2)
    for expression in dashboard_expressions():
        filled = expression.replace("$__rate_interval", "1m").replace("$instance", ".*").replace("$model", ".*")
        prometheus.get("query", query=filled)


def test_rules_and_configuration_are_valid():
    for what, file in (("rules", "alerts.yml"), ("config", "prometheus.yml")):
        r = subprocess.run(["promtool", "check", what, str(DEPLOY / file)], capture_output=True, text=True)
        assert r.returncode == 0, r.stdout + r.stderr


def test_alerts_fire_when_they_should(tmp_path):
    """Series made up: half of the requests fail, load is twice the capacity, batches stand; a second server is well."""
    def series(name, labels, values):
        return {"series": f"{name}{{{labels}}}", "values": values}

    bad, good = 'job="millrace",instance="bad",model="m"', 'job="millrace",instance="good",model="m"'
    test = {"rule_files": [str(DEPLOY / "alerts.yml")], "evaluation_interval": "1m", "tests": [{
        "interval": "1m",
        "input_series": [series("millrace_requests_total", bad + ',outcome="error"', "0+60x30"),
                         series("millrace_requests_total", bad + ',outcome="stop"', "0+60x30"),
                         series("millrace_requests_total", good + ',outcome="stop"', "0+60x30"),
                         series("millrace_load_ratio", bad, "2+0x30"), series("millrace_load_ratio", good, "0.5+0x30"),
                         series("millrace_batch_lines_pending", bad, "7+0x100"), series("millrace_batch_lines_pending", good, "7+0x100"),
                         series("millrace_batch_lines_total", bad + ',result="completed"', "5+0x100"),
                         series("millrace_batch_lines_total", good + ',result="completed"', "5+9x100"),
                         series("millrace_batch_lines_total", good + ',result="failed"', "0+3x100"),
                         series("millrace_batch_oldest_line_age_seconds", bad, "80000+60x100"),
                         series("millrace_batch_oldest_line_age_seconds", good, "0+60x100")],
        "alert_rule_test": [
            {"eval_time": at, "alertname": name, "exp_alerts": [{"exp_labels": {"severity": severity, **labels},
                                                                    "exp_annotations": {"summary": summary}}]}
            for at, name, severity, labels, summary in (
                ("20m", "MillraceErrors", "critical", {"instance": "bad", "model": "m"}, "50% of requests to m fail"),
                ("20m", "MillraceSaturated", "warning", {"instance": "bad", "model": "m", "job": "millrace"},
                 "m is offered 200% of what it can do"),
                ("90m", "MillraceBatchesStand", "warning", {"instance": "bad", "model": "m", "job": "millrace"},
                 "no line of the batches on bad was done for an hour: online requests leave no time, or the disk is full"),
                ("20m", "MillraceBatchesLate", "warning", {"instance": "bad", "model": "m", "job": "millrace"},
                 "a batch on bad waits for 22h 33m 20s: batches of 24 hours expire soon"),
                ("90m", "MillraceBatchLinesFail", "warning", {"instance": "good"}, "25% of the lines of batches on good fail"))]}]}
    path = tmp_path / "test.yml"
    path.write_text(json.dumps(test))
    r = subprocess.run(["promtool", "test", "rules", str(path)], capture_output=True, text=True)
    assert r.returncode == 0, r.stdout + r.stderr


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd is not installed")
def test_the_unit_is_one(tmp_path):
    unit = tmp_path / "millrace.service"
    unit.write_text((DEPLOY / "millrace.service").read_text().replace("/usr/local/bin/millrace", "/bin/true"))
    r = subprocess.run(["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True)
    assert "millrace.service" not in r.stderr, r.stderr
