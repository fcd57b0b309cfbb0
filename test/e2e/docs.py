#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause-Patent
# docs.py script PAGE: the commands of a page as one shell script, in the order of the page.
# docs.py compare PAGE DIR: what they printed, beside what the page shows.
#
#   ```sh       run; it must succeed.  With "# not run: REASON" as its first line it is only counted.
#   ```text     behind a block that was run: what that prints.  "..." stands for any text in a line,
#               and on a line of its own for any lines.
#   ```python   run by python3; ```c begins with /* NAME.c */ and is written into that file.
import os, re, sys


# Yields (number, kind, line, text).
def blocks(page):
    text, number = open(page).read(), 0
    for m in re.finditer(r"^```(\w+)\n(.*?)^```$", text, re.M | re.S):
        number += 1
        yield number, m[1], text.count("\n", 0, m.start()) + 1, m[2]


def is_run(kind, text):
    return kind in ("sh", "python", "c") and not text.startswith("# not run: ")


# Files, sockets and ports of the page become some of the test's.
def moved(text, root, port):
    text = text.replace("7010", str(port)).replace("9620", str(port + 1)) # not in root, whose name is random
    return re.sub(r"/(?=(etc|var/lib|run)/weka)", root + "/", text)


def script(page, root, port):
    print("set -eu -o pipefail\n. ./standins\ncd work")
    for number, kind, line, text in blocks(page):
        if not is_run(kind, text):
            continue
        text = moved(text, root, port)
        print(f"echo {number} >{root}/at; exec >{root}/out.{number} 2>&1 # {page}:{line}")
        if kind == "c":
            name = re.match(r"/[*] (\S+)", text)[1]
            text = f"cat >{name} <<'END OF C'\n{text}END OF C\n"
        elif kind == "python":
            text = f"python3 - <<'END OF PYTHON'\n{text}END OF PYTHON\n"
        print(text, end="")
    print(f"echo all >{root}/at")


def matches(shown, got):
    pattern = ""
    for line in shown.splitlines():
        if line == "...":
            pattern += r"(?:.*\n)*"
        else:
            pattern += re.sub(r"(?:\\ )+", r" +", ".*".join(re.escape(p) for p in line.split("..."))) + r"\n"
    return re.fullmatch(pattern, got)


def compare(page, root, port):
    at, last, counts = open(f"{root}/at").read().strip(), None, {"run": 0, "shown": 0, "not run": 0}
    for number, kind, line, text in blocks(page):
        place = f"{page}:{line}"
        if text.startswith("# not run: "):
            counts["not run"] += 1
            print(f"ok {place} # {text.splitlines()[0][2:]}")
        elif is_run(kind, text):
            name = f"{root}/out.{number}"
            got = open(name).read() if os.path.exists(name) else ""
            got = got.replace(root, "")
            for theirs, ours in ((port, "7010"), (port + 1, "9620")): # no part of another number
                got = re.sub(rf"(?<!\d){theirs}(?!\d)", ours, got)
            counts["run"] += 1
            if at == "all" or int(at) > number:
                print(f"ok {place}")
            else:
                print(f"not ok {place}: it " + ("failed" if int(at) == number else "was not reached"))
                print("  " + "\n  ".join(got.splitlines()[-5:]))
            last = got
        elif kind == "text" and last is not None:
            counts["shown"] += 1
            if matches(text, last):
                print(f"ok {place}: what is printed")
            else:
                print(f"not ok {place}: what is printed\n  " + "\n  ".join(last.splitlines()[:30]))
            last = None
        elif kind == "text":
            print(f"not ok {place}: nothing was run before it")
    print("# " + ", ".join(f"{n} {what}" for what, n in counts.items()))


what, page, root, port = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
script(page, root, port) if what == "script" else compare(page, root, port)
