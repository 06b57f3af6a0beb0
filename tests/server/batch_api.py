"""A client of /v1/files and /v1/batches with nothing but bytes: what a test sends is what goes out."""
import json

from server import Server

END = ("completed", "failed", "expired", "cancelled")


def form(text, name="in.jsonl", purpose="batch", boundary="xyzzy", **fields):
    """The body of an upload, and its headers."""
    parts = [(f'name="{k}"', v) for k, v in {"purpose": purpose, **fields}.items() if v is not None]
    if text is not None:
        parts.append((f'name="file"; filename="{name}"', text))
    body = b"".join(b"--" + boundary.encode() + b"\r\nContent-Disposition: form-data; " + head.encode() + b"\r\n\r\n" +
                    (value if isinstance(value, bytes) else str(value).encode()) + b"\r\n" for head, value in parts)
    return body + f"--{boundary}--\r\n".encode(), {"Content-Type": f"multipart/form-data; boundary={boundary}"}


def request(i, url="/v1/chat/completions", **fields):
    body = {"messages": [{"role": "user", "content": f"Say {i}"}], "max_tokens": 4, "temperature": 0, **fields}
    return {"custom_id": f"r{i}", "method": "POST", "url": url, "body": {k: v for k, v in body.items() if v is not None}}


def jsonl(requests):
    return "".join(json.dumps(r) + "\n" for r in requests).encode()


class Client:
    def __init__(self, server, key=None):
        self.server = server
        self.headers = {"Authorization": f"Bearer {key}"} if key else {}

    def ask(self, method, path, body=None, headers=None):
        return self.server.request(method, path, body, headers={**self.headers, **(headers or {})})

    def upload(self, text, **fields):
        return self.ask("POST", "/v1/files", *form(text, **fields))

    def content(self, file_id):
        """Lines of an output."""
        if file_id is None:
            return []
        r = self.ask("GET", f"/v1/files/{file_id}/content")
        assert r.status == 200, r.body
        return [json.loads(line) for line in r.body.split(b"\n") if line]

    def create(self, text, endpoint="/v1/chat/completions", window="24h", **fields):
        """A job over an input that is sent first."""
        file = self.upload(text).json()
        return self.ask("POST", "/v1/batches", {"input_file_id": file["id"], "endpoint": endpoint, "completion_window": window,
                                                **fields}).json()

    def get(self, job_id):
        return self.ask("GET", f"/v1/batches/{job_id}").json()

    def wait(self, job_id, states=END):
        self.server.wait_until(lambda: self.get(job_id)["status"] in states)
        return self.get(job_id)


def serve(folder, *options, **more):
    return Server("-c", "256", "--max-batch-size", "4", "-t", "1", "--state-dir", folder / "state", *options, **more)
