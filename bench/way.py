#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause-Patent
"""Prints which files a request runs through, from callgrind's output for two runs of different length.

A file is on the way if one of its functions (or an inline function of it, in another) is called at
least SHARE times a request, and does at least three times as much in a turn as in an idle one: what
every turn looks at, such as a checkpoint that may be due, does not belong to the request.  Nor does
what comes once a second, or once in many requests.

usage: way.py SHARE REQUESTS FEW MANY [IDLE_FEW IDLE_MANY]
       prints "FILE instructions a request, functions" for each
"""
import collections
import re
import sys

TURN = "app_core_step"  # is called once a turn
MORE = 3                # times an idle turn's instructions
OURS = re.compile(r"(?:base|nvme|meta|fabric|client-lib|appliance)/")
SPEC = re.compile(r"(fl|fi|fe|fn|cfi|cfl|cfn)=\((\d+)\)(?: (.*))?")


def plain(name):
    """Without the copies' suffixes that gcc and callgrind add, and "./" before a path."""
    return re.sub(r"'\d+$|\.(?:isra|constprop|part|cold)\b.*", "", re.sub(r"^(?:\./)+", "", name))


class Profile:
    def __init__(self, path):
        self.cost = collections.Counter()   # (file, function): instructions there
        self.calls = collections.Counter()  # function: calls; a function is (its file, its name)
        names = {"f": {}, "n": {}}
        home = at = function = callee_file = callee = None
        is_call = False
        for line in open(path, encoding="utf-8"):
            m = SPEC.match(line)
            if m:
                kind, number, text = m.groups()
                table = names["n" if kind.endswith("fn") else "f"]
                if text is not None:
                    table[number] = plain(text.strip())
                name = table[number]
                if kind == "fl":
                    home = at = name
                elif kind in ("fi", "fe"):
                    at = name
                elif kind == "fn":
                    function = (home, name)
                elif kind == "cfn":
                    callee = name
                else:
                    callee_file = name
            elif line.startswith("calls="):
                self.calls[(callee_file or home, callee)] += int(line[6:].split()[0])
                callee_file, is_call = None, True
            elif line[:1] in "+-*0123456789" and line.strip():
                if not is_call:
                    words = line.split()
                    self.cost[(at, function)] += int(words[1]) if len(words) > 1 else 0
                is_call = False

    def less(self, other):
        """What this run, the longer one, did more."""
        self.cost.subtract(other.cost)
        self.calls.subtract(other.calls)
        self.turns = sum(n for (_, name), n in self.calls.items() if name == TURN)
        return self


def way(share, requests, busy, idle):
    least = share * requests
    files = collections.defaultdict(dict)
    for (file, function), cost in busy.cost.items():
        if not OURS.match(file or "") or min(busy.calls[function], cost) < least:
            continue
        if idle and cost * idle.turns <= MORE * idle.cost[(file, function)] * busy.turns:
            continue
        files[file][function[1]] = cost / requests
    return files


def main():
    profiles = [Profile(path) for path in sys.argv[3:]]
    share, requests = float(sys.argv[1]), int(sys.argv[2])
    idle = profiles[3].less(profiles[2]) if len(profiles) == 4 else None
    for file, functions in sorted(way(share, requests, profiles[1].less(profiles[0]), idle).items()):
        names = sorted(functions, key=lambda name: -functions[name])
        print(file, round(sum(functions.values())), " ".join(names[:6]))


if __name__ == "__main__":
    main()
