#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause-Patent
"""Refuses constructions that a reader has to decode: the rules are in test/plain.list.

usage: plain.py RULES FILE...      prints "FILE:LINE: what to write: the sentence", a line for each
"""
import re
import sys


def rules(path):
    """(at start only, pattern, advice) of each line of the list."""
    for line in open(path, encoding="utf-8"):
        if line.strip() and not line.startswith("#"):
            pattern, _, advice = line.rstrip("\n").partition(" => ")
            yield pattern.startswith("^"), re.compile(pattern), advice


def texts(path, text):
    """(line, text) of each comment of a program, paragraph of a document, line of a manual page."""
    if path.endswith((".c", ".h")):
        for m in re.finditer(r'"(?:\\.|[^"\\\n])*"|/\*(.*?)\*/', text, re.S):
            if m.group(1):
                yield text.count("\n", 0, m.start()) + 1, re.sub(r"\n\s*\* ?", "\n", m.group(1))
    elif path.endswith(".md"):
        text = re.sub(r"```.*?```", lambda m: "\n" * m.group(0).count("\n"), text, flags=re.S)
        line = 1
        for part in re.split(r"(\n\s*\n|\n(?=[-|#]|\d+\. ))", text):
            if part.strip():
                yield line + part.count("\n", 0, len(part) - len(part.lstrip())), part
            line += part.count("\n")
    else:
        for number, line in enumerate(text.split("\n"), 1):
            if not line.startswith("."):
                yield number, line


def sentences(body):
    body = re.sub(r"`[^`]*`", "x", body)
    body = re.sub(r"[*|]+|^\s*[-#>]+\s*|\(\d+\)", " ", body, flags=re.M)
    body = re.sub(r"\s+", " ", body).strip()
    return [s for s in re.split(r"(?<=[.:;?!])\s+(?=[A-Z(])", body) if len(s.split()) >= 3]


def main():
    known = list(rules(sys.argv[1]))
    for path in sys.argv[2:]:
        for line, body in texts(path, open(path, encoding="utf-8").read()):
            for sentence in sentences(body):
                for at_start, pattern, advice in known:
                    if pattern.match(sentence) if at_start else pattern.search(sentence):
                        print(f"{path}:{line}: {sentence[:60]}: write {advice}")
                        break


main()
