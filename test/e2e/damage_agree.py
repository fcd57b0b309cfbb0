#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause-Patent
"""damage_agree.py SOURCE OUT TOP LIST STATUS LOG: does the appliance know what is lost?

SOURCE was imported to TOP, and OUT is what an export of that brought.  LIST is what `wekactl --json
damaged` said then, STATUS `wekactl --json status`, LOG the daemon's log.  Each file that did not come
out as it was must be in LIST, or lie below a directory or a file of which LIST has a page of the index;
and each file in LIST must be one that did not come out.  A directory whose own record is lost has no
path, nor have files below it: `(directory N)`, or none.  STATUS counts as many files as LIST has, and LOG
names each damaged one.  Prints what is not so, then the counts.
"""
import json, os, sys

source, out, top = map(os.fsencode, sys.argv[1:4])


def is_whole(a, b):
    if os.path.islink(a):
        return os.path.islink(b) and os.readlink(a) == os.readlink(b)
    if not os.path.isfile(b) or os.path.islink(b):
        return False
    with open(a, "rb") as x, open(b, "rb") as y:
        return x.read() == y.read()


lost, whole = set(), set()
for at, _, names in os.walk(source):
    for name in names:
        path = os.path.relpath(os.path.join(at, name), source)
        there = is_whole(os.path.join(source, path), os.path.join(out, path))
        (whole if there else lost).add(os.path.join(top, path))

damaged, unreachable, pages, nameless = set(), set(), set(), {"damaged": 0, "unreachable": 0}
with open(sys.argv[4]) as lines:
    for entry in map(json.loads, lines):
        path = entry["path"].encode("latin-1")
        far = entry["damage"] == "unreachable"
        if entry.get("index"):
            pages.add(path)
        elif path == b"" or path.startswith((b"/(directory ", b"(")):
            nameless["unreachable" if far else "damaged"] += 1
        else:
            (unreachable if far else damaged).add(path)

wrong = []
for path in sorted(lost - damaged - unreachable):
    if not any(page[:1] != b"/" or page.startswith(b"/(directory ") or path == page or
               path.startswith(page.rstrip(b"/") + b"/") for page in pages):
        wrong.append("%a is lost, and not listed" % path)
wrong += ["%a is listed, and whole" % path for path in sorted((damaged | unreachable) - lost)]

with open(sys.argv[5]) as file:
    status = json.load(file)["damage"]
if any(nameless.values()) and not pages:
    wrong.append("files without a path are listed, and no page of the index")
for count, key in ((len(damaged) + nameless["damaged"], "files"),
                   (len(unreachable) + nameless["unreachable"], "unreachable_files")):
    if status[key] != count:
        wrong.append("the status has damage.%s %d, the list %d" % (key, status[key], count))
with open(sys.argv[6], "rb") as file:
    log = file.read()
# Control characters are `?` in the log.
for path in sorted(damaged):
    if b"scrub: " + bytes(c if c >= 32 and c != 127 else 63 for c in path) + b":" not in log:
        wrong.append("the log does not name %a" % path)
for line in wrong[:8]:
    print(line)
print("%d lost, %d whole; %d damaged, %d unreachable, %d pages listed" %
      (len(lost), len(whole), len(damaged), len(unreachable), len(pages)))
sys.exit(bool(wrong))
