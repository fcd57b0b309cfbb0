#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause-Patent
"""Counts the rules that nothing checks, and the asserts a function: test/rules.list has the limits.

A rule is a numbered item of a file's head comment.  It is checked if an assert cites it by a comment
that begins with its number, beside the assert or above it (of another file: with that file's name),
or if the rule's text names a test in brackets: a file of test/, and perhaps one test in it:

    ASSERT(z->live == 0); /* (2) */
    ASSERT(due == ops->orphans_due); /* meta_orphan.c (5) */
     *  (4) ... in a store that is nearly full one copy must do [test_meta_log:full, sim/press].

usage: rules.py LIST FOLDER...      prints "FILE:LINE: what is wrong", a line for each
       rules.py -n LIST FOLDER...   prints each rule that nothing checks, and the counts by folder
"""
import os
import re
import sys

TEST_SUFFIXES = (".c", ".sh", ".py")
COMMENT = re.compile(r"/\*.*?\*/", re.S)
ITEM = re.compile(r"^(?:[^\n(]*\bInvariants?[^\n(]*: )?[ \t]*\((\d+)\) ", re.M)
CITES = re.compile(r"/\*\s*((?:(?:[a-z_]+\.[ch] )?\(\d+\)(?:, | and )?)+)")
CITE = re.compile(r"(?:([a-z_]+\.[ch]) )?\((\d+)\)")
ASSERTS = re.compile(r"\b(?:D?ASSERT|static_assert)\(")
TEST = r"(?:(?:test|fuzz|torture|e2e|guest)_|sim/)[a-z0-9_]+(?::[a-z0-9_]+)?"
TESTS = re.compile(rf"\[({TEST}(?:,\s+{TEST})*)\]")


def blank(m):
    return re.sub(r"[^\n]", " ", m.group(0))


class Source:
    """A file: its rules {number: (line, text)}, functions, asserts, and what these cite."""

    def __init__(self, path):
        self.path = path
        self.text = open(path, encoding="utf-8").read()
        self.code = COMMENT.sub(blank, self.text)
        self.rules, self.unnumbered = self.head_rules()
        self.functions = len(re.findall(r"^\{", self.code, re.M))
        self.asserts = len(re.findall(r"\bD?ASSERT\((?!x\))", self.code))
        self.cites = list(self.citations())

    def line_of(self, at):
        return self.text.count("\n", 0, at) + 1

    def head_rules(self):
        """The first block comment with items 1, 2, ..., before any function."""
        unnumbered = 0
        end = re.search(r"^\{", self.code, re.M)
        for m in COMMENT.finditer(self.text, 0, end.start() if end else len(self.text)):
            if self.text[m.start() - 1 : m.start()] not in ("", "\n"):
                continue  # it stands beside code
            body = re.sub(r"^( ?)\*", r"\1 ", m.group(0)[2:-2], flags=re.M)
            if "\n" not in body and "Invariant" not in body:
                continue  # it cites a rule
            found, next_number = [], 1
            for item in ITEM.finditer(body):
                if int(item.group(1)) == next_number:
                    found.append(item)
                    next_number += 1
            if found:
                ends = [i.start() for i in found[1:]] + [len(body)]
                return {n: (self.line_of(m.start() + 2 + i.start(1)), body[i.end() : e])
                        for n, (i, e) in enumerate(zip(found, ends), 1)}, 0
            said = re.search(r"\bInvariants?\b[^.\n]*:", body)
            if said and not unnumbered:
                unnumbered = self.line_of(m.start() + 2 + said.start())
        return {}, unnumbered

    def citations(self):
        """(line, file or "", number) of each rule that an assert cites."""
        for m in ASSERTS.finditer(self.code):
            depth, end = 1, m.end()
            while depth and end < len(self.code):
                depth += {"(": 1, ")": -1}.get(self.code[end], 0)
                end += 1
            beside = self.text[end : self.text.find("\n", end)]
            before = self.text[: self.text.rfind("\n", 0, m.start())].rstrip()
            above = before[before.rfind("/*") :] if before.endswith("*/") else ""
            if above and self.code[self.code.rfind("\n", 0, len(before) - len(above)) + 1 : len(before)].strip():
                above = ""  # it stands beside another line
            for comment in (beside, above):
                cites = CITES.search(comment)
                for name, number in CITE.findall(cites.group(1)) if cites else ():
                    yield self.line_of(m.start()), name, int(number)


def missing_tests(text, known):
    """The tests that a rule's text names and that do not exist."""
    named = [t for names in TESTS.findall(text) for t in re.split(r",\s+", names)]
    return [t for t in named if not has_test(known, *t.split(":"))]


def has_test(known, name, part=""):
    path = known.get(name)
    if not path:
        return False
    return re.search(rf"\b{part}\b", open(path, encoding="utf-8").read()) is not None


def tests():
    """{name: path} of all tests: files below test/, by their names and by their paths there, both
    without suffixes."""
    paths = [os.path.join(d, name) for d, _, names in os.walk("test")
             for name in sorted(names) if name.endswith(TEST_SUFFIXES)]
    known = {os.path.basename(p).rsplit(".", 1)[0]: p for p in paths}
    known.update((p.removeprefix("test/").rsplit(".", 1)[0], p) for p in paths)
    return known


def limits(path):
    """{folder: (line, rules that nothing checks, asserts in a hundred functions)} of the list."""
    out = {}
    for number, line in enumerate(open(path, encoding="utf-8"), 1):
        words = line.split("#")[0].split()
        if words:
            out[words[0]] = (number, int(words[1]), int(words[2]))
    return out


def unchecked(sources, known_tests, say):
    """Yields (folder, file, line, number) of each rule that has neither an assert nor a test."""
    by_name = {}
    for s in sources:
        by_name.setdefault(os.path.basename(s.path), s)
    asserted = set()
    for s in sources:
        for line, name, number in s.cites:
            of = by_name.get(name) if name else s
            if not of or number not in of.rules:
                cited = f"{name} ({number})".lstrip()
                say(f"{s.path}:{line}: an assert cites {cited}, and there is no such rule")
            else:
                asserted.add((of.path, number))
    for s in sources:
        if s.unnumbered:
            say(f"{s.path}:{s.unnumbered}: an invariant without a number: write (1)")
        for number, (line, text) in s.rules.items():
            text = re.sub(r"\n[ \t]*", " ", text)
            for t in missing_tests(text, known_tests):
                say(f"{s.path}:{line}: rule ({number}) names {t}, and there is no such test")
            if not TESTS.search(text) and (s.path, number) not in asserted:
                yield os.path.dirname(s.path), s.path, line, number


def judge(list_path, sources, found, say):
    """Compares the counts of each folder with its row of the list."""
    rows = limits(list_path)
    count = {}
    for s in sources:
        c = count.setdefault(os.path.dirname(s.path), [0, 0, 0, 0])
        c[0] += len(s.rules)
        c[2] += s.asserts
        c[3] += s.functions
    for folder, *_ in found:
        count[folder][1] += 1
    for folder, (rules, bare, asserts, functions) in sorted(count.items()):
        if not rules and not functions:
            continue
        per_hundred = asserts * 100 // functions if functions else 0
        if folder not in rows:
            say(f"{list_path}:1: has no row for {folder}: {bare} unchecked, {per_hundred} asserts")
            continue
        line, bare_max, floor = rows.pop(folder)
        if bare > bare_max:
            say(f"{list_path}:{line}: {folder} has {bare} rules that nothing checks, not {bare_max}:")
            for _, path, at, number in (f for f in found if f[0] == folder):
                say(f"{path}:{at}: rule ({number}): neither an assert cites it, nor does it name a test")
        elif bare < bare_max:
            say(f"{list_path}:{line}: {folder} has only {bare} rules that nothing checks: write that")
        if functions and per_hundred < floor:
            say(f"{list_path}:{line}: {folder} has {per_hundred} asserts in 100 functions, not {floor}")
    for folder, (line, *_) in rows.items():
        say(f"{list_path}:{line}: there is no folder {folder} with sources")
    return count


def main():
    show = sys.argv[1] == "-n"
    list_path, *folders = sys.argv[2:] if show else sys.argv[1:]
    paths = sorted(os.path.join(d, n) for f in folders for d, _, names in os.walk(f) for n in names
                   if n.endswith((".c", ".h")))
    sources = [Source(p) for p in paths]
    findings = []
    found = list(unchecked(sources, tests(), findings.append))
    if show:
        for _, path, line, number in found:
            print(f"{path}:{line}: ({number})")
        for folder, (rules, bare, asserts, functions) in sorted(judge(list_path, sources, found, lambda _: None).items()):
            print(f"{folder:22} {rules:4} rules, {bare:3} unchecked {asserts:5} asserts in {functions:5} functions")
        return 0
    count = judge(list_path, sources, found, findings.append)
    print("\n".join(findings) if findings else "", end="\n" if findings else "")
    rules, bare, asserts, functions = (sum(c[i] for c in count.values()) for i in range(4))
    print(f"{rules} rules, {bare} without a check; {asserts} asserts in {functions} functions")
    return 1 if findings else 0


sys.exit(main())
