"""Deployment files: `millrace serve --config FILE`, alone with --check and in a running server."""
import signal
import subprocess
import threading
from pathlib import Path

import pytest

from server import MILLRACE, SMOLLM2, Server, needs_smollm2, processes

from program import run

ROOT = Path(__file__).resolve().parents[2]
PUBLISHED = 'deployment: {device: "cuda:0", precision: "fp16", max_batch_size: 8, memory_pool: {gpu: 0.9, cpu: 2.0}}\n'


def check(tmp_path, text, *options, env=None):
    path = tmp_path / "deployment.yaml"
    path.write_text(text)
    return run("serve", "--check", "--config", path, *options, env=env)


def test_the_published_file_names_the_device_that_is_missing(tmp_path):
    r = check(tmp_path, PUBLISHED)
    assert r.returncode == 2 and "device 'cuda:0' is not there" in r.stderr and r.stdout == ""


def test_the_published_file_runs_on_the_cpu_where_told_so(tmp_path):
    r = check(tmp_path, PUBLISHED, "--device-fallback", "cpu")
    assert r.returncode == 0
    for line in ("precision: fp16  # file", "max_batch_size: 8  # file", "  cpu: 2G  # file", "  port: 8080  # default"):
        assert line + "\n" in r.stdout


def test_the_command_line_wins_then_the_environment(tmp_path):
    text = "server: {port: 1000, max_queue: 10, drain_s: 5}\n"
    r = check(tmp_path, text, "--port", "3000", env={"MILLRACE_PORT": "2000", "MILLRACE_MAX_QUEUE": "20"})
    assert "  port: 3000  # command line\n" in r.stdout
    assert "  max_queue: 20  # environment\n" in r.stdout
    assert "  drain_s: 5  # file\n" in r.stdout


def test_what_is_shown_is_a_file_that_says_the_same(tmp_path):
    first = check(tmp_path, "scheduler: {latency_target_ms: 500}\nalias: 'a \"b\"'\n", "--mlock")
    again = check(tmp_path, first.stdout)
    assert again.returncode == 0
    values = [line.split("  #")[0] for line in first.stdout.splitlines()]
    assert values == [line.split("  #")[0] for line in again.stdout.splitlines()]


@pytest.mark.parametrize("text, message", [
    ("server:\n  prot: 1\n", "deployment.yaml: line 2: unknown key 'server.prot'"),
    ("max_batch_size: many\n", "deployment.yaml: line 1: max_batch_size: 'many' is not an integer from 1 to 64"),
    ("alias: \"a\n", "deployment.yaml: line 2: "),
    ("model: /nonexistent.gguf\n", "model: cannot read '/nonexistent.gguf'"),
    ("server: {api_keys_file: /nonexistent}\n", "server.api_keys_file: cannot open '/nonexistent'"),
    ("warm_pool: {active: 40, standby: 40}\n", "warm_pool: active and standby are more than 64 processes"),
])
def test_errors_name_the_file_the_line_and_the_key(tmp_path, text, message):
    r = check(tmp_path, text)
    assert r.returncode == 2 and message in r.stderr and r.stderr.count("\n") == 1


def test_wrong_options_and_variables_are_named(tmp_path):
    r = check(tmp_path, "", "--port", "http")
    assert r.returncode == 2 and "--port: 'http' is not an integer from 0 to 65535" in r.stderr
    r = check(tmp_path, "", env={"MILLRACE_API_KEY": ""})
    assert r.returncode == 2 and "MILLRACE_API_KEY: is empty" in r.stderr
    assert run("serve").returncode == 2


def test_secrets_are_not_shown(tmp_path):
    r = check(tmp_path, "", "--api-key", "top-secret")
    assert r.returncode == 0 and "top-secret" not in r.stdout


def test_the_documentation_has_every_setting(tmp_path):
    """docs/deployment.md names each key, option and variable; `--check` and `--help` are what there is."""
    text = (ROOT / "docs/deployment.md").read_text()
    section = ""
    for line in check(tmp_path, "").stdout.splitlines():
        key = line.split(":")[0]
        if not line.startswith(" ") and line.endswith(":"):
            section = key + "."
            continue
        section = section if line.startswith(" ") else ""
        assert f"`{section}{key.strip()}`" in text, f"{section}{key.strip()} is not documented"


@needs_smollm2
def test_a_server_runs_by_its_file(tmp_path):
    path = tmp_path / "deployment.yaml"
    path.write_text("deployment:\n  alias: small\n  precision: int8\n  memory_pool: {cpu: 0.05}\n"
                    "  scheduler: {latency_target_ms: 5000}\n")
    with Server("--config", path) as s:
        assert s.get("/v1/models").json()["data"][0]["id"] == "small"
        text = s.get("/metrics").body.decode()
        kv = next(float(line.split()[-1]) for line in text.splitlines() if 'pool="kv"' in line)
        assert 0.5 * 0.05 * 2**30 < kv <= 0.06 * 2**30
        assert "\nmillrace_latency_target_seconds 5\n" in text


@needs_smollm2
def test_the_file_is_read_again(tmp_path):
    path = tmp_path / "deployment.yaml"

    def write(latency=5000, temperature=0.5, queue=512, more=""):
        path.write_text(f"scheduler: {{latency_target_ms: {latency}}}\nsampling: {{temperature: {temperature}}}\n"
                        f"server: {{max_queue: {queue}, cors_origin: 'http://a'{more}}}\n")

    def told(text):
        s.process.send_signal(signal.SIGHUP)
        s.wait_until(lambda: text in s.error_text())

    def target():
        return next(line for line in s.get("/metrics").body.decode().splitlines() if line.startswith("millrace_latency_target"))

    def answer():  # as the server's temperature has it
        return s.post("/v1/completions", {"prompt": "Once upon", "max_tokens": 12, "seed": 3, "top_k": 0, "top_p": 1, "min_p": 0}).json()

    write()
    with Server("--config", path) as s:
        warm = answer()["choices"][0]["text"]
        write(latency=7000, temperature=0, queue=5)
        told("read again: sampling.temperature, scheduler.latency_target_ms\n")
        assert "changed, and count from the next start on: server.max_queue" in s.error_text()
        assert target() == "millrace_latency_target_seconds 7" and answer()["choices"][0]["text"] != warm
        write(latency=8000, more=", bogus: 1")
        told("the settings are as they were")
        assert "bogus" in s.error_text() and "7" in target()
        write(temperature=0.5)
        s.process.send_signal(signal.SIGHUP)
        s.wait_until(lambda: "5" in target())
        assert answer()["choices"][0]["text"] == warm
        assert s.end() == 0


@needs_smollm2
def test_engine_processes_have_new_targets_at_once(tmp_path):
    def bucket():
        page = s.get("/metrics").body.decode()
        return float(next(line for line in page.splitlines() if line.startswith("millrace_bucket_size_model_tokens{")).split()[1])

    path = tmp_path / "deployment.yaml"
    path.write_text("scheduler: {latency_target_ms: 5000}\nwarm_pool: {standby: 1}\n")
    with Server("--config", path) as s:
        path.write_text("scheduler: {latency_target_ms: 7000}\nwarm_pool: {standby: 1}\nserver: {drain_s: 5}\n")
        s.process.send_signal(signal.SIGHUP)
        s.wait_until(lambda: "read again: scheduler.latency_target_ms, server.drain_s\n" in s.error_text())
        assert "millrace_latency_target_seconds 7\n" in s.get("/metrics").body.decode()
        path.write_text("scheduler: {latency_target_ms: 7000, bucket_capacity: 10}\nwarm_pool: {standby: 1}\nserver: {drain_s: 5}\n")
        s.process.send_signal(signal.SIGHUP)
        s.wait_until(lambda: "read again: scheduler.bucket_capacity\n" in s.error_text())
        assert s.post("/v1/completions", {"prompt": "Once upon a time", "max_tokens": 1}).status == 200
        s.wait_until(lambda: bucket() == 10)


@needs_smollm2
def test_settings_that_need_a_new_engine_count_where_a_standby_takes_over(tmp_path):
    def write(more, standby=1):
        path.write_text(f"warm_pool: {{standby: {standby}}}\n{more}")

    def told(text):
        s.process.send_signal(signal.SIGHUP)
        s.wait_until(lambda: text in s.error_text())

    def drafted():
        return ask()["timings"]["draft_n"]

    def ask(**more):
        return s.post("/completion", {"prompt": "one two three " * 30, "n_predict": 12, "temperature": 0, "ignore_eos": True, **more}).json()

    path = tmp_path / "deployment.yaml"
    write("speculation: {method: 'ngram'}\n")
    with Server("--config", path) as s:
        s.wait_until(lambda: len(processes(s)) == 2)
        before, first, streamed = processes(s), ask(), []
        assert first["timings"]["draft_n"] > 0
        thread = threading.Thread(target=lambda: streamed.append(ask(n_predict=400)))
        thread.start()
        s.wait_until(lambda: s.load() == 1)
        write("speculation: {method: 'off'}\n")
        told("read again: speculation.method\n")
        assert drafted() == 0 and ask()["content"] == first["content"]  # beside the answer that began before
        thread.join()
        assert streamed[0]["tokens_predicted"] == 400 and streamed[0]["timings"]["draft_n"] > 0
        s.wait_until(lambda: len(processes(s)) == 2 and not set(processes(s)) & set(before))
        write("speculation: {method: 'off'}\nkv_tokens: 64\n")  # less than the context: no engine has it
        told("the engines of")
        assert "are as they were" in s.error_text() and drafted() == 0
        assert s.end() == 0
    write("speculation: {method: 'ngram'}\n", standby=0)
    with Server("--config", path) as s:
        write("speculation: {method: 'off'}\n", standby=0)
        told("changed, and count from the next start on: speculation.method\n")
        assert drafted() > 0


@needs_smollm2
def test_a_pool_without_room_for_the_context_is_an_error():
    r = subprocess.run([MILLRACE, "serve", "-m", SMOLLM2, "--port", "0", "--memory-pool-cpu", "5M", "-c", "2048"],
                       capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=600)
    assert r.returncode == 1 and "less than the context" in r.stderr
