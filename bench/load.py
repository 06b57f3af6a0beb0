#!/usr/bin/env python3
"""Real conversations as a load on a server of OpenAI's API: a closed loop of users, each of whom waits for an answer before the next message.

    bench/load.py http://127.0.0.1:8080 [--users 32] [--seconds 60]

Conversations come from models/sharegpt.json (scripts/fetch_models.py sharegpt). A user walks through one after the other; what stands in a
prompt as an earlier answer is the recorded one, and each answer is made as long as the recorded one (`ignore_eos`, `max_tokens`), so that every
server gets the same work. Figures are of the time after --warm-up: tokens that arrived in it, and among them first ones, whenever their
requests were sent: where users queue for longer than the run those of the beginning are all that are answered.
A refusal (429, or 503 with Retry-After) is counted apart, and sent again when the server said; everything else that gives no whole answer
is an error."""
import argparse
import asyncio
import json
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

ROOT = Path(__file__).resolve().parent.parent
MAX_PROMPT = 6000  # characters
ANSWER_TOKENS = (16, 256)
CHARACTERS_A_TOKEN = 4
MAX_TURNS = 4
RETRY_S = 1  # where a refusal does not say when to come back


def is_usable(turns):
    """English, and such as fits every server's context."""
    text = "".join(turn["value"] for turn in turns[:2])
    return len(turns) >= 2 and turns[0]["from"] == "human" and turns[0]["value"] and len(text) <= MAX_PROMPT and text.isascii()


def read_objects(path):
    """Those of the file, which is cut in the middle of its last one."""
    text = path.read_text()
    decoder, at = json.JSONDecoder(), text.index("{")
    while True:
        try:
            found, at = decoder.raw_decode(text, at)
            yield found
            at = text.index("{", at)
        except ValueError:
            return


def read_conversations(path, n):
    """The first n usable ones: lists of (messages, tokens of the answer)."""
    found = []
    for conversation in read_objects(path):
        if len(found) == n:
            break
        turns = conversation["conversations"]
        if not is_usable(turns):
            continue
        requests, messages = [], []
        for asked, answered in zip(turns[0::2], turns[1::2]):
            messages = messages + [{"role": "user", "content": asked["value"]}]
            if len(requests) == MAX_TURNS or sum(len(m["content"]) for m in messages) > MAX_PROMPT:
                break
            tokens = len(answered["value"]) // CHARACTERS_A_TOKEN
            requests.append((messages, max(ANSWER_TOKENS[0], min(tokens, ANSWER_TOKENS[1]))))
            messages = messages + [{"role": "assistant", "content": answered["value"]}]
        found.append(requests)
    return found


class Refused(Exception):
    """retry_s: when the server said to come back."""

    def __init__(self, retry_s):
        super().__init__(f"refused for {retry_s} s")
        self.retry_s = retry_s


async def read_head(reader):
    status = int((await reader.readline()).split()[1])
    headers = {}
    while (line := await reader.readline()).strip():
        name, _, value = line.decode("latin-1").partition(":")
        headers[name.strip().lower()] = value.strip()
    return status, headers


async def read_lines(reader, is_chunked):
    """The lines of a body, without its chunks."""
    rest = b""
    while True:
        if is_chunked:
            size = int((await reader.readline()).split(b";")[0] or b"0", 16)
            piece = await reader.readexactly(size) if size else b""
            await reader.readline()
        else:
            piece = await reader.read(65536)
        if not piece:
            return
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            yield line.strip()


class Load:
    def __init__(self, url, model, a):
        self.host, self.port, self.model, self.a = urlsplit(url).hostname, urlsplit(url).port, model, a
        self.refusals, self.errors, self.first, self.first_with_waits, self.gaps, self.finished = 0, {}, [], [], [], 0
        self.n_tokens = 0
        self.n_prompt_tokens = 0

    def is_counted(self, at):
        return self.begin + self.a.warm_up <= at <= self.begin + self.a.seconds

    async def answer(self, messages, n, asked_at):
        """One whole answer. asked_at: when its user asked first. Raises Refused, or what else went wrong."""
        body = json.dumps({"model": self.model, "messages": messages, "max_tokens": n, "ignore_eos": True, "temperature": 0, "stream": True,
                           "stream_options": {"include_usage": True}}).encode()
        reader, writer = await asyncio.open_connection(self.host, self.port, limit=1 << 20)
        try:
            sent_at = time.monotonic()
            writer.write((f"POST /v1/chat/completions HTTP/1.1\r\nHost: {self.host}:{self.port}\r\nContent-Type: application/json\r\n"
                          f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n").encode() + body)
            status, headers = await read_head(reader)
            if status == 429 or status == 503 and "retry-after" in headers:
                raise Refused(float(headers.get("retry-after", RETRY_S)))
            lines = read_lines(reader, headers.get("transfer-encoding", "").lower() == "chunked")
            if status != 200:
                raise RuntimeError(f"status {status}: {(b''.join([line async for line in lines]))[:200].decode(errors='replace')}")
            await self.listen(lines, sent_at, asked_at)
        finally:
            writer.close()

    async def listen(self, lines, sent_at, asked_at):
        """Count an event with content as a token, as servers send them; at the end the usage says how many each had."""
        at, usage, reason = [], None, None
        async for line in lines:
            if not line.startswith(b"data:"):
                continue
            data = line[5:].strip()
            if data == b"[DONE]":
                break
            event = json.loads(data)
            if "error" in event:
                raise RuntimeError(f"in the stream: {event['error'].get('message', '')[:200]}")
            usage = event.get("usage") or usage
            for choice in event.get("choices", ()):
                reason = choice.get("finish_reason") or reason
                if choice["delta"].get("content"):
                    at.append(time.monotonic())
                    self.count(at, sent_at, asked_at)
        if reason is None:
            raise RuntimeError("the stream ended without a finish reason")
        if usage and at:  # events that held several tokens, or characters in several tokens
            self.n_tokens += sum(map(self.is_counted, at)) * (usage["completion_tokens"] / len(at) - 1)
        if at and self.is_counted(at[-1]):
            self.finished += 1
            self.n_prompt_tokens += usage["prompt_tokens"] if usage else 0

    def count(self, at, sent_at, asked_at):
        self.n_tokens += self.is_counted(at[-1])
        if len(at) > 1 and self.is_counted(at[-1]):
            self.gaps.append(at[-1] - at[-2])
        if len(at) == 1 and self.is_counted(at[-1]):
            self.first.append(at[0] - sent_at)
            self.first_with_waits.append(at[0] - asked_at)

    async def ask(self, messages, n):
        """Until it is answered."""
        asked_at = time.monotonic()
        while True:
            try:
                return await self.answer(messages, n, asked_at)
            except Refused as refused:
                self.refusals += self.is_counted(time.monotonic())
                await asyncio.sleep(refused.retry_s)
            except (OSError, RuntimeError, ValueError, KeyError, IndexError, asyncio.IncompleteReadError) as error:
                text = f"{type(error).__name__}: {error}"[:200]
                self.errors[text] = self.errors.get(text, 0) + 1
                return await asyncio.sleep(RETRY_S)

    async def user(self, conversations):
        for conversation in conversations:
            for messages, n in conversation:
                await self.ask(messages, n)

    async def run(self, conversations):
        self.begin = time.monotonic()
        users = [asyncio.create_task(self.user(conversations[i::self.a.users])) for i in range(self.a.users)]
        done, _ = await asyncio.wait(users, timeout=self.a.seconds)
        for task in users:
            task.cancel()
        await asyncio.gather(*users, return_exceptions=True)
        if done:
            sys.exit("a user had no conversation left: the run was too long for the data")


def quantiles(values):
    values = sorted(values)
    return {f"p{q}": 1000 * values[min(len(values) - 1, len(values) * q // 100)] for q in (50, 99)} if values else None


def measure(url, model, a):
    """{"tokens_per_second", "ttft_ms": {"p50", "p99"}, "ttft_with_waits_ms", "itl_ms", "finished", "refused", "errors": {text: n}, ...}"""
    load = Load(url, model, a)
    asyncio.run(load.run(read_conversations(a.conversations, a.users * 10)))
    seconds = a.seconds - a.warm_up
    return {"users": a.users, "seconds": seconds, "tokens_per_second": load.n_tokens / seconds, "finished": load.finished,
            "prompt_tokens_per_request": load.n_prompt_tokens / load.finished if load.finished else None,
            "ttft_ms": quantiles(load.first), "ttft_with_waits_ms": quantiles(load.first_with_waits), "itl_ms": quantiles(load.gaps),
            "n_first_tokens": len(load.first), "refused": load.refusals, "errors": load.errors}


def add_arguments(p):
    p.add_argument("--seconds", type=float, default=60, help="of a run, warm-up included")
    p.add_argument("--warm-up", type=float, default=10)
    p.add_argument("--conversations", type=Path, default=ROOT / "models/sharegpt.json")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("url")
    p.add_argument("--model", default="", help="its name in the API; none: the server's only one")
    p.add_argument("--users", type=int, default=32)
    add_arguments(p)
    a = p.parse_args()
    print(json.dumps(measure(a.url, a.model, a), indent=1))


if __name__ == "__main__":
    main()
