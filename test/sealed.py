#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause-Patent
"""Checks that nothing which a polling thread may call allocates memory.

A polling thread is sealed: malloc() or free() ends the appliance.  Error paths are seldom run, so
this reads them from the machine code instead: it takes the call graph of the appliance's archives
(objdump: calls, jumps, and functions whose address is taken) and follows it from serve(), the loop
of a sealed thread, and from every function whose address is taken anywhere, since a pointer to it
may be called there.  Whatever is called outside of the archives must be in the list of functions
that are known not to allocate.

usage: test/sealed.py LIST ARCHIVE...        LIST: test/sealed.list, which explains itself
"""
import fnmatch
import re
import subprocess
import sys

FUNC = re.compile(r"^([0-9a-f]+) <(.+)>:$")
INSN = re.compile(r"^\s+([0-9a-f]+):\s+(\S+)(.*)$")
RELOC = re.compile(r"^\s+([0-9a-f]+): (R_X86_64_\w+)\s+(\S+)$")
TARGET = re.compile(r"<([^>+]+)(\+0x[0-9a-f]+)?>")
MEMBER = re.compile(r"^(\S+\.o):\s+file format")
SYMBOL = re.compile(r"^([0-9a-f]{16}) (.{7}) (\S+)\s+([0-9a-f]{16})\s+(?:\.hidden )?(\S+)$")
DATA_RELOC = re.compile(r"^([0-9a-f]{16}) (R_X86_64_\w+)\s+(\S+)$")


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


def split_reloc(text):
    """"name-0x4" -> ("name", -4)"""
    m = re.match(r"^(.*?)([+-]0x[0-9a-f]+)?$", text)
    return m.group(1), int(m.group(2) or "0", 16)


class Object:
    """One member of an archive: its functions by section and offset."""

    def __init__(self, name):
        self.name = name
        self.at = {}  # section -> {offset: function}
        self.local = set()
        self.globals = set()


def read_symbols(archive, objects):
    obj = None
    for line in run("objdump", "-t", archive):
        m = MEMBER.match(line)
        if m:
            obj = objects.setdefault(m.group(1), Object(m.group(1)))
            continue
        m = SYMBOL.match(line)
        if not m or "F" not in m.group(2):
            continue
        offset, flags, section, _, name = m.groups()
        obj.at.setdefault(section, {})[int(offset, 16)] = name
        if flags[0] == "l":
            obj.local.add(name)
        else:
            obj.globals.add(name)


class Graph:
    def __init__(self):
        self.calls = {}  # node -> set of nodes
        self.taken = {}  # node -> where its address is taken

    def node(self, obj, name):
        name = re.sub(r"\.(cold|part|isra|constprop)\b.*", "", name)
        return obj.name[:-2] + ":" + name if name in obj.local or obj.is_part(name) else name

    def add(self, where, what):
        self.calls.setdefault(where, set()).add(what)

    def take(self, what, where):
        self.taken.setdefault(what, where)


def is_part(self, name):
    """Whether it is a local function that exists in parts only (NAME.constprop.0)."""
    return name not in self.globals and any(
        re.sub(r"\.(cold|part|isra|constprop)\b.*", "", l) == name for l in self.local)


Object.is_part = is_part


def resolve(obj, target, addend, pcrel):
    """The function that a relocation names, or None: it is data, or the middle of a function."""
    if target in obj.at:  # a section
        return obj.at[target].get(addend + (4 if pcrel else 0))
    return target if not target.startswith(".") else None


def read_code(archive, objects, graph):
    obj = section = where = None
    last = ""  # the last instruction's name
    for line in run("objdump", "-dr", "--no-show-raw-insn", "-w", archive):
        m = MEMBER.match(line)
        if m:
            obj = objects[m.group(1)]
            continue
        if line.startswith("Disassembly of section "):
            section = line[23:-1]
            continue
        m = FUNC.match(line)
        if m:
            where = graph.node(obj, m.group(2))
            graph.calls.setdefault(where, set())
            continue
        if ": R_X86_64" in line:  # with -w a relocation stands behind its instruction
            insn, _, rest = line.partition(": R_X86_64")
            kind, _, target = ("R_X86_64" + rest).partition("\t")
            last = insn.split(":", 1)[1].split()[0]
            name, addend = split_reloc(target.strip())
            found = resolve(obj, name, addend, "PC32" in kind or "PLT32" in kind)
            if not found:
                continue
            node = graph.node(obj, found)
            if last.startswith(("call", "j")):
                graph.add(where, node)
            else:
                graph.take(node, where)
            continue
        m = INSN.match(line)
        if not m:
            continue
        last = m.group(2)
        t = TARGET.search(m.group(3))
        if not t or not where:
            continue
        if last.startswith("call") or (last.startswith("j") and not t.group(2)):
            graph.add(where, graph.node(obj, t.group(1)))
        elif last.startswith("j") and t.group(2):  # into the middle: of the same or a cold part
            graph.add(where, graph.node(obj, t.group(1)))
        elif last.startswith("lea") and not t.group(2) and t.group(1) in obj.at.get(section, {}).values():
            graph.take(graph.node(obj, t.group(1)), where)


def read_data(archive, objects, graph):
    obj = None
    section = ""
    for line in run("objdump", "-r", "-w", archive):
        m = MEMBER.match(line)
        if m:
            obj = objects[m.group(1)]
            continue
        if line.startswith("RELOCATION RECORDS FOR "):
            section = line[24:-2]
            continue
        m = DATA_RELOC.match(line)
        if not m or not section.startswith((".data", ".rodata")):
            continue
        name, addend = split_reloc(m.group(3))
        found = resolve(obj, name, addend, False)
        if found and (found in obj.at.get(name, {}).values() or not name.startswith(".")):
            graph.take(graph.node(obj, found), obj.name + section)


class Rules:
    def __init__(self, path):
        self.safe, self.waits, self.ends, self.allowed, self.roots = set(), {}, {}, {}, []
        self.used = set()
        with open(path, encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                words = line.split("#", 1)[0].split()
                if not words:
                    continue
                if words[0] == "safe":
                    self.safe.update(words[1:])
                    continue
                if "#" not in line or not line.split("#", 1)[1].strip():
                    sys.exit(f"{path}:{number}: a reason is missing, after #")
                if words[0] == "root":
                    self.roots += words[1:]
                elif words[0] == "waits":
                    self.waits.update(dict.fromkeys(words[1:], number))
                elif words[0] in ("ends", "lifts"):
                    self.ends.update(dict.fromkeys(words[1:], number))
                elif words[0] == "allow":
                    self.allowed[(words[1], words[2])] = number
                else:
                    sys.exit(f"{path}:{number}: not a rule: {words[0]}")


    def waits_for(self, node):
        """The pattern that says that only threads which may wait call it, or None."""
        return next((p for p in self.waits if fnmatch.fnmatchcase(node, p)), None)


def path_to(came_from, node):
    way = [node]
    while came_from[way[-1]]:
        way.append(came_from[way[-1]])
    return " <- ".join(way[:9]) + (" <- ..." if len(way) > 9 else "")


def main():
    rules = Rules(sys.argv[1])
    objects, graph = {}, Graph()
    for archive in sys.argv[2:]:
        read_symbols(archive, objects)
    for archive in sys.argv[2:]:
        read_code(archive, objects, graph)
        read_data(archive, objects, graph)
    bad = 0
    used = set()
    came_from = {}
    queue = []
    for root in rules.roots:
        if root not in graph.calls:
            print(f"{sys.argv[1]}: root {root}: there is no such function")
            sys.exit(1)
    for node, where in sorted(graph.taken.items()):
        pattern = rules.waits_for(node)
        if pattern:
            used.add(pattern)
        elif node in graph.calls:
            came_from.setdefault(node, None)
            queue.append(node)
    for root in rules.roots:
        came_from[root] = None
        queue.append(root)
    while queue:
        node = queue.pop(0)
        for callee in sorted(graph.calls[node]):
            if callee in rules.ends:
                used.add(callee)
                continue
            if callee in graph.calls:
                if callee not in came_from:
                    came_from[callee] = node
                    queue.append(callee)
                continue
            if callee in rules.safe:
                continue
            if (node, callee) in rules.allowed:
                used.add((node, callee))
                continue
            bad += 1
            print(f"a polling thread may call {callee}: {path_to(came_from, node)}")
            if not came_from[node]:
                print(f"    the address of {node} is taken in {graph.taken.get(node, 'nothing')}")
    for rule, number in {**rules.waits, **rules.ends, **rules.allowed}.items():
        if rule not in used:
            print(f"{sys.argv[1]}:{number}: {rule}: the rule is not needed")
            bad += 1
    print(f"# {len(came_from)} of {len(graph.calls)} functions may run on a polling thread")
    return 1 if bad else 0


sys.exit(main())
