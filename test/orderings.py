#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause-Patent
"""Checks that each ordering between threads, or with a device, has a label, and each label its mate.

Each access names its order: memory_order_relaxed, or one in words.  An access with acquire, release,
acq_rel or seq_cst, and a barrier (dma_wmb(), the compiler's, membarrier()), has a label, a capital
letter and a number, in a comment of its statement or right above it.  A comment of the file says what
the two ends order:

    R1 -> A1   (A1 in nvme_qpair.c) what is stored before what can be seen

Each end of such a pair is at an access of that file, or at one of a file that the text of the pair
names.  Where another file says what they order, its name is enough: R1 -> A1 (nvme_qpair.c).  The mate
of a barrier may be hardware: B1 -> device.

usage: orderings.py FILE...      prints "FILE:LINE: what is wrong", a line for each
"""
import os
import re
import sys

ACCESS = re.compile(r"\bmemory_order_(?:acquire|release|acq_rel|seq_cst|consume)\b"
                    r"|\b__ATOMIC_(?:ACQUIRE|RELEASE|ACQ_REL|SEQ_CST|CONSUME)\b"
                    r"|(?<!void )\b(?:dma_[rw]?mb|atomic_(?:thread|signal)_fence|__sync_\w+)\s*\("
                    r"|(?<=\t)__asm__ volatile\(\s*:::|\bMEMBARRIER_CMD_(?:PRIVATE|GLOBAL)_EXPEDITED\b")
DEFINES = re.compile(r"^static inline void dma_[rw]?mb\(void\)\n\{.*?^\}", re.M | re.S)
# Without _explicit the order is seq_cst, and nobody sees that it is one.
IMPLICIT = re.compile(r"\batomic_(?:load|store|exchange|compare_exchange_(?:weak|strong)|fetch_[a-z]+"
                      r"|flag_(?:test_and_set|clear))\s*\(")
STATIC = re.compile(r"^\s*static\b[^;{()]*?\b_Atomic\b[^;{]*?(\w+)(?:\[\w+\])?\s*(?:=[^;]*)?;", re.M)
COMMENT = re.compile(r"/\*.*?\*/", re.S)
STRING = re.compile(r'"(?:\\.|[^"\\\n])*"')
PAIR = re.compile(r"\b([A-Z][0-9]+|device) -> ([A-Z][0-9]+|device)\b")
LABEL = re.compile(r"\b[A-Z][0-9]+\b")
FILE_NAME = re.compile(r"\b[a-z0-9_]+\.[ch]\b")


def blank(m):
    return re.sub(r"[^\n]", " ", m.group(0))


class Source:
    def __init__(self, path):
        self.path = path
        self.name = os.path.basename(path)
        self.text = open(path, encoding="utf-8").read()
        self.comments = list(COMMENT.finditer(self.text))
        self.code = DEFINES.sub(blank, STRING.sub(blank, COMMENT.sub(blank, self.text)))
        self.pairs = {}  # (from, to): its text
        for comment in self.comments:
            self.find_pairs(comment.group(0))
        self.ends = {end for pair in self.pairs for end in pair}
        self.accesses = [(m.start(), self.labels_at(m.start())) for m in ACCESS.finditer(self.code)]
        self.used = set().union(*(labels for _, labels in self.accesses)) if self.accesses else set()

    def find_pairs(self, comment):
        """The text of a pair ends where the next one begins, at an empty line, or with its comment."""
        found = list(PAIR.finditer(comment))
        for m, after in zip(found, found[1:] + [None]):
            text = comment[m.end():after.start() if after else len(comment)]
            text = re.split(r"\n\s*\*?\s*\n", text)[0]
            key = (m.group(1), m.group(2))
            self.pairs[key] = self.pairs.get(key, "") + text

    def implicit(self):
        """Where an access does not name its order; or a static atomic is used like any variable."""
        yield from (m.start() for m in IMPLICIT.finditer(self.code))
        for d in STATIC.finditer(self.code):
            inside = d.group(0).lstrip("\n").startswith("\t")  # of a function: to its end
            end = self.code.find("\n}", d.end()) if inside else len(self.code)
            for m in re.finditer(rf"(?<![&.>\w]){d.group(1)}\b", self.code[d.end():end]):
                yield d.end() + m.start()

    def line_of(self, at):
        return self.text.count("\n", 0, at) + 1

    def statement(self, at):
        """From after the last ';', '{' or '}' to the end of the line of the next one."""
        begin = max(self.code.rfind(c, 0, at) for c in ";{}") + 1
        begin = self.text.find("\n", begin) + 1 if self.code[begin:].split("\n")[0].strip() == "" else begin
        ends = [i for i in (self.code.find(c, at) for c in ";{") if i >= 0]
        end = self.text.find("\n", min(ends) if ends else at)
        return begin, end if end >= 0 else len(self.text)

    def labels_at(self, at):
        begin, end = self.statement(at)
        return {label for m in self.comments if begin <= m.start() < end
                for label in LABEL.findall(m.group(0)) if label in self.ends}


def says_what(text):
    return len(re.findall(r"\b[a-z]+\b", FILE_NAME.sub("", text))) >= 4


def judge(sources, say):
    by_name = {}
    for s in sources:
        by_name.setdefault(s.name, []).append(s)
    for s in sources:
        for at in s.implicit():
            say(f"{s.path}:{s.line_of(at)}: this atomic access does not name its order")
        for at, labels in s.accesses:
            if not labels:
                say(f"{s.path}:{s.line_of(at)}: this ordering has no label of a pair (R1 -> A1)")
        for (a, b), text in s.pairs.items():
            where = s.line_of(s.text.find(f"{a} -> {b}"))
            others = [o for n in FILE_NAME.findall(text) for o in by_name.get(n, [])]
            if not says_what(text) and not any(says_what(o.pairs.get((a, b), "")) for o in others):
                say(f"{s.path}:{where}: what does {a} -> {b} order?")
            for end in (a, b):
                if end != "device" and end not in s.used and not any(end in o.used for o in others):
                    say(f"{s.path}:{where}: {a} -> {b}: nothing has {end} here, or in a file that the pair names")


def main():
    findings = []
    judge([Source(p) for p in sys.argv[1:]], findings.append)
    print("\n".join(findings), end="\n" if findings else "")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
