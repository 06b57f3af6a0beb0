"""A server that speaks as Millrace does to the page, and misbehaves on request: the last message of a chat says how.

    "say TEXT"         the answer is TEXT, a character or a few at a time
    "think"            reasoning, then an answer
    "slow"             a word every 50 ms, without end until the client leaves
    "status 429"       an error before the stream, in OpenAI's shape
    "break"            an error event after some words
    "cut"              the connection ends after some words
    "huge"             scripts and links that must do nothing, and a long block of code

Run alone it serves web/ for work on the page: fake_server.py PORT"""
import json
import math
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

WEB = Path(__file__).resolve().parent.parent.parent / "web"
TYPES = {".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8",
         ".svg": "image/svg+xml"}
CSP = ("default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; "
       "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'")
BUCKETS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5]
SCRIPT = "<script>window.hit = 1</script>"
HUGE = (f"{SCRIPT}<img src=x onerror='window.hit = 1'> [x](javascript:window.hit=1)\n\n```html\n" + f"{SCRIPT}\n" * 4000 + "```\n")
STAGES = {"receive": 1, "parse": 2, "load": 0, "queue": 30, "prefill": 120, "decode": 800, "write": 12}


def metrics_text(t):
    """Counters that grow with the time t as those of a busy server do."""
    n = int(4 * t)
    lines = []

    def histogram(name, mean, count):
        total = 0
        for bound in BUCKETS:
            total = round(count * (1 - math.exp(-bound / mean)))
            lines.append(f'millrace_{name}_bucket{{model="fake",le="{bound}"}} {total}')
        lines.append(f'millrace_{name}_bucket{{model="fake",le="+Inf"}} {count}')
        lines.append(f'millrace_{name}_sum{{model="fake"}} {count * mean}')
        lines.append(f'millrace_{name}_count{{model="fake"}} {count}')

    histogram("time_to_first_token_seconds", 0.08, n)
    histogram("inter_token_latency_seconds", 0.012, 50 * n)
    wave = 1 + math.sin(t / 7)
    lines += [f'millrace_generation_tokens_total{{model="fake"}} {50 * n}', f'millrace_prompt_tokens_total{{model="fake"}} {120 * n}',
              f'millrace_requests_running{{model="fake"}} {round(8 * wave)}', f'millrace_requests_waiting{{model="fake"}} {round(3 * wave)}',
              f'millrace_load_ratio{{model="fake"}} {0.4 * wave:.2f}', 'millrace_slo_attainment_ratio{model="fake"} 0.97',
              'millrace_goodput_requests_per_second{model="fake"} 3.9', 'millrace_mfu_ratio{model="fake"} 0.31',
              'millrace_mbu_ratio{model="fake"} 0.62', 'millrace_engine_busy_ratio{model="fake"} NaN',
              f'millrace_requests_total{{model="fake",outcome="stop"}} {n}', f'millrace_requests_total{{model="fake",outcome="refused"}} {n // 40}']
    lines += [f'millrace_request_stage_seconds_sum{{model="fake",stage="{s}"}} {w * t / 1000}' for s, w in STAGES.items()]
    pools = {"weights": 90e6, "kv": 120e6, "kv_in_use": 30e6 * wave, "kv_cached": 25e6, "responses": 3e6, "host_tier": 0}
    lines += [f'millrace_memory_bytes{{model="fake",pool="{pool}"}} {size:.0f}' for pool, size in pools.items()]
    return "\n".join(lines) + "\n"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def reply(self, status, content_type, body, **headers):
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def reply_json(self, value, status=200, **headers):
        self.reply(status, "application/json", json.dumps(value).encode(), **headers)

    def fail(self, status, message, **headers):
        self.reply_json({"error": {"message": message, "type": "invalid_request_error", "param": None, "code": None}}, status, **headers)

    def is_known(self):
        key = self.server.api_key
        if key is None or self.headers.get("Authorization") == f"Bearer {key}":
            return True
        self.fail(401, "no valid API key")
        return False

    def do_GET(self):
        path = self.path.split("?")[0]
        if path == "/" or path.startswith("/web/"):
            file = WEB / ("index.html" if path == "/" else path[len("/web/"):])
            self.reply(200, TYPES[file.suffix], file.read_bytes(), Content_Security_Policy=CSP, Cache_Control="no-cache")
        elif not self.is_known():
            pass
        elif path == "/v1/models":
            self.reply_json({"object": "list", "data": [{"id": "fake", "object": "model"}]})
        elif path == "/props":
            self.reply_json({"default_generation_settings": {"n_ctx": 2048}})
        elif path == "/slots":
            self.reply_json([{"id": i, "n_ctx": 2048, "is_processing": i < 3} for i in range(8)])
        elif path == "/metrics":
            self.reply(200, "text/plain; version=0.0.4", metrics_text(time.time() - self.server.begin + 100).encode())
        else:
            self.fail(404, "no such path")

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append(body)
        text = body["messages"][-1]["content"]
        if not self.is_known():
            return
        if text.startswith("status "):
            status = int(text.split()[1])
            self.fail(status, "this was asked for", **({"Retry_After": "2"} if status == 429 else {}))
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        try:
            self.stream(text)
        except (BrokenPipeError, ConnectionResetError):
            self.server.left += 1

    def send(self, value):
        self.wfile.write(f"data: {value if isinstance(value, str) else json.dumps(value)}\n\n".encode())
        self.wfile.flush()

    def delta(self, **fields):
        self.send({"choices": [{"index": 0, "delta": fields, "finish_reason": None}]})

    def stream(self, text):
        self.wfile.write(b": keep-alive\n\n")
        self.delta(role="assistant", content="")
        if text == "slow":
            for i in range(1200):
                self.delta(content=f"word{i} ")
                time.sleep(0.05)
        elif text == "think":
            for word in ["First ", "I ", "think."]:
                self.delta(reasoning_content=word)
            self.delta(content="Then I speak.")
        elif text in ("break", "cut"):
            self.delta(content="Some words, then ")
            if text == "break":
                self.send({"error": {"message": "the engine has lost a row", "type": "server_error"}})
            return
        else:
            said = HUGE if text == "huge" else text[4:] if text.startswith("say ") else f"You said: {text}"
            size = max(1, len(said) // 40)
            for i in range(0, len(said), size):
                self.delta(content=said[i:i + size])
        self.send({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
        self.send({"choices": [], "usage": {"prompt_tokens": 20, "completion_tokens": 40, "total_tokens": 60}})
        self.send("[DONE]")


class FakeServer(ThreadingHTTPServer):
    """requests: the bodies of chats; left: streams that the client ended."""
    daemon_threads = True

    def __init__(self, port=0, api_key=None):
        super().__init__(("127.0.0.1", port), Handler)
        self.begin, self.requests, self.left, self.api_key = time.time(), [], 0, api_key
        self.url = f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, *_):
        pass  # a browser that leaves in the middle of a reply

    def start(self):
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return self


if __name__ == "__main__":
    FakeServer(int(sys.argv[1])).serve_forever()
