#!/usr/bin/env python3
"""Conversations as plain text to train on and to measure with: turns in the model's own chat form (ChatML).

    scripts/sharegpt_text.py models/sharegpt.json --bytes 20MB > text.txt
    scripts/sharegpt_text.py models/sharegpt.json --skip 20MB --bytes 1MB > held-out.txt

The file may be cut off at its end: whole conversations are read until the cut.
"""
import argparse
import json
import sys
from pathlib import Path

ROLES = {"human": "user", "user": "user", "gpt": "assistant", "chatgpt": "assistant", "assistant": "assistant", "bard": "assistant",
         "system": "system"}


def size(text):
    for suffix, factor in (("GB", 10 ** 9), ("MB", 10 ** 6), ("KB", 10 ** 3)):
        if text.upper().endswith(suffix):
            return int(float(text[:-2]) * factor)
    return int(text)


def conversations(text):
    """The objects of a JSON list, as far as they are whole."""
    decoder, at = json.JSONDecoder(), text.index("[") + 1
    while True:
        while at < len(text) and text[at] in " \t\r\n,":
            at += 1
        try:
            value, at = decoder.raw_decode(text, at)
        except json.JSONDecodeError:
            return
        yield value


def chat(conversation):
    turns = conversation.get("conversations", conversation.get("items", []))
    return "".join(f"<|im_start|>{ROLES[t['from']]}\n{t['value'].strip()}<|im_end|>\n" for t in turns if t.get("from") in ROLES)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("file", type=Path)
    p.add_argument("--bytes", type=size, default=size("20MB"))
    p.add_argument("--skip", type=size, default=0)
    a = p.parse_args()
    at = 0
    for c in conversations(a.file.read_text(errors="replace")):
        text = chat(c).encode()
        if at >= a.skip:
            sys.stdout.buffer.write(text)
        at += len(text)
        if at >= a.skip + a.bytes:
            break


if __name__ == "__main__":
    main()
