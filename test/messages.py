#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause-Patent
# messages.py PAGE FOLDER...: each warning and error that the sources log begins with an identifier
# of its own, "WEKA-123: ", and the manual page lists those, and no others.  A line that was made
# elsewhere is printed by log_warn("%s", line); the text is checked where it is made.
import pathlib, re, sys

page, folders = sys.argv[1], sys.argv[2:]
found, mistakes = {}, []
for path in sorted(p for f in folders for p in pathlib.Path(f).rglob("*.c")):
    text = path.read_text()
    at = lambda m: f"{path}:{text.count(chr(10), 0, m.start()) + 1}"
    for m in re.finditer(r'\blog_(?:warn|error)\(\s*"((?:[^"\\]|\\.)*)"(?:\s*,\s*(\w+)\))?', text):
        if not re.match(r"WEKA-\d{3}: \S", m[1]) and not (m[1] == "%s" and m[2] == "line"):
            mistakes.append(f'{at(m)}: a line without an identifier: "{m[1]}"')
    for m in re.finditer(r"\blog_(?:warn|error)\(\s*[^\s\"]", text):
        mistakes.append(f"{at(m)}: a line whose text is not there")
    for m in re.finditer(r'"(WEKA-\d+)', text):
        if m[1] in found:
            mistakes.append(f"{at(m)}: {m[1]} is that of {found[m[1]]}, too")
        found.setdefault(m[1], at(m))
listed = [i for line in open(page) if line.startswith(".It ") for i in re.findall(r"WEKA-\d+", line)]
mistakes += [f"{page}: lists {i} twice" for i in sorted(set(listed)) if listed.count(i) > 1]
mistakes += [f"{found[i]}: {i} is not in {page}" for i in sorted(set(found) - set(listed))]
mistakes += [f"{page}: nothing logs {i}" for i in sorted(set(listed) - set(found))]
print("\n".join(mistakes + [f"{len(found)} messages"]))
sys.exit(bool(mistakes))
