#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause-Patent
"""Pairs of trees: one goes over the other, in the appliance and here, and nothing else changes.

    tree_pairs.py DIR SEED PAIRS WEKACTL ARGUMENT...

For each pair, from the seed: tree A is imported, then tree B over it; then all of it is exported
over a third tree, C.  A and C have symlinks to a canary beside the target wherever B has files and
directories, and the other way round.  What must come of it is computed here: what B has replaces
what is there, but a directory that is not empty stays where B has something else.  The canaries, in
the appliance and here, must be what they were.  All pairs of a round travel together.
"""
import os, random, shutil, stat, subprocess, sys

clock = [1000000000]


def when(path):
    clock[0] += 1
    os.utime(path, ns=(clock[0] * 10**9, clock[0] * 10**9 + clock[0] % 1000), follow_symlinks=False)


def make_tree(top, canary, depth=0):
    """A directory of random things under few names, so that two of them meet."""
    os.mkdir(top)
    for name in "abcd":
        path, kind = os.path.join(top, name), random.randrange(9)
        if kind < 2 and depth < 3:
            make_tree(path, canary, depth + 1)
        elif kind == 2:
            os.mkdir(path)
        elif kind < 5:
            with open(path, "w") as f:
                f.write("%d" % random.randrange(1 << 60) * random.choice([0, 1, 300]))
            os.chmod(path, random.choice([0o644, 0o600, 0o4755]))
        elif kind < 8:
            os.symlink(random.choice([canary, canary + "/d", canary + "/f", canary + "/d/a",
                                      canary + "/new", "a", "b", "..", "../b", "../../canary"]), path)
        elif random.random() < 0.5:
            others = [n for n in "abc" if n < name and not os.path.isdir(os.path.join(top, n)) and
                      os.path.lexists(os.path.join(top, n))]
            if others:
                os.link(os.path.join(top, others[0]), path, follow_symlinks=False)
                continue
        if os.path.lexists(path):
            when(path)
    when(top)


def make_canary(top):
    os.mkdir(top)
    os.mkdir(top + "/d")
    for name in ("f", "d/a", "d/b"):
        with open(top + "/" + name, "w") as f:
            f.write("canary " + name)
        when(top + "/" + name)
    when(top + "/d")
    when(top)


def scan(path):
    """(type, mode, time, content): a dictionary for a directory."""
    st = os.lstat(path)
    if stat.S_ISLNK(st.st_mode):
        return ("l", 0, st.st_mtime_ns, os.readlink(path))
    if stat.S_ISREG(st.st_mode):
        with open(path, "rb") as f:
            return ("f", st.st_mode & 0o7777, st.st_mtime_ns, f.read())
    return ("d", st.st_mode & 0o7777, st.st_mtime_ns, {n: scan(os.path.join(path, n)) for n in sorted(os.listdir(path))})


def merge(old, new, path, refused):
    if old and new and old[0] == new[0] == "d":
        names = sorted(set(old[3]) | set(new[3]))
        return new[:3] + ({n: merge(old[3].get(n), new[3].get(n), path + "/" + n, refused) for n in names},)
    if old and new and old[0] == "d" and old[3]:
        refused.add(path)
        return old
    return new or old


def differ(got, want, path, free):
    """The first place where they differ.  `free`: names of files that were refused under one of them."""
    if path in free:
        return None
    if not got or not want or got[0] != want[0]:
        return "%s: %s, not %s" % (path, got and got[:3], want and want[:3])
    if got[:3] != want[:3] and not (got[0] == "l" and got[2] == want[2]):
        return "%s: %s, not %s" % (path, got[:3], want[:3])
    if got[0] != "d":
        return None if got[3] == want[3] else "%s: has %r, not %r" % (path, got[3][:40], want[3][:40])
    for name in sorted(set(got[3]) | set(want[3])):
        text = differ(got[3].get(name), want[3].get(name), path + "/" + name, free)
        if text:
            return text
    return None


def with_links(top, refused):
    """Paths of all names of files of which one name was refused."""
    groups = {}
    for at, dirs, files in os.walk(top):
        for name in files + dirs:
            path = os.path.join(at, name)
            st = os.lstat(path)
            if not stat.S_ISDIR(st.st_mode):
                groups.setdefault(st.st_ino, []).append(path[len(top):])
    return {p for g in groups.values() if refused & set(g) for p in g} - refused


def main():
    work, seed, pairs, command = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:]
    print("seed %d, %d pairs" % (seed, pairs))
    random.seed(seed)

    def ctl(*args):
        got = subprocess.run(command + list(args), capture_output=True, text=True)
        if got.returncode not in (0, 1) or not got.stdout:
            sys.exit("%s: exit status %d: %s" % (" ".join(args), got.returncode, got.stderr))
        return got.stderr.count(": not imported: ") + got.stderr.count(": not exported: "), got

    base, there = work + "/pairs", "/pairs%d" % seed
    os.mkdir(base)
    make_canary(base + "/canary")
    subprocess.run(command + ["mkdir", there], check=True)
    ctl("import", base + "/canary", there + "/canary")
    for name, canary in (("A", there + "/canary"), ("B", there + "/canary"), ("C", base + "/canary")):
        os.mkdir("%s/%s" % (base, name))
        for i in range(pairs):
            make_tree("%s/%s/%d" % (base, name, i), canary)
        when("%s/%s" % (base, name))
    a, b, c = (scan("%s/%s" % (base, n)) for n in "ABC")
    before = scan(base + "/canary")

    failed = []
    ctl("import", base + "/A", there + "/t")
    count, said = ctl("import", base + "/B", there + "/t")
    refused = set()
    want = merge(a, b, "", refused)
    free = with_links(base + "/B", refused)
    if count < len(refused) or (said.returncode == 0) != (not refused):
        failed.append("import refused %d, not %d" % (count, len(refused)))
    ctl("export", there + "/t", base + "/out")
    out = scan(base + "/out")
    failed += filter(None, (differ(out[3][k], want[3][k], "/" + k, free) for k in want[3]))
    ctl("export", there + "/canary", base + "/canary.out")
    failed += filter(None, [differ(scan(base + "/canary.out"), before, "the canary in the appliance", set())])

    refused = set()
    want = merge(c, out, "", refused)
    free = with_links(base + "/out", refused)
    count, said = ctl("export", there + "/t", base + "/C")
    got = scan(base + "/C")
    if count < len(refused) or (said.returncode == 0) != (not refused):
        failed.append("export refused %d, not %d" % (count, len(refused)))
    failed += filter(None, (differ(got[3][k], want[3][k], "/C/" + k, {"/C" + p for p in free}) for k in want[3]))
    failed += filter(None, [differ(scan(base + "/canary"), before, "the canary here", set())])
    for text in failed[:10]:
        print(text)
    print("%d pairs, %d failures" % (pairs, len(failed)))
    if not failed:
        shutil.rmtree(base)
    return 1 if failed else 0


sys.exit(main())
