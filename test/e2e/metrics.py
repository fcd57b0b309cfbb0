#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause-Patent
"""Asks an appliance for its metrics, as Prometheus, a browser and a vandal do.

    metrics.py get PORT PATH [HEADER...]     prints the status, then the body; asks again after 503
    metrics.py check FILE                    is it Prometheus' text format?  prints what is wrong
    metrics.py names FILE                    prints the families in it
    metrics.py used FILE...                  prints the metrics that alerts and dashboards name
    metrics.py documented FILE               prints the metrics that the manual page has
    metrics.py value FILE SERIES             prints the sum of the series that begin so
    metrics.py vandal PORT COUNT SEED        sends COUNT requests that are none
    metrics.py idle PORT COUNT SECONDS       prints how many of COUNT connections were closed by then
    metrics.py slow PORT COUNT SECONDS       so many send a byte now and then; after that gets /metrics
"""
import http.client
import json
import random
import re
import select
import socket
import struct
import sys
import time


PATIENCE_S = 60  # of a machine that is busy with other things


def asked(port, path, *headers):
    c = http.client.HTTPConnection("127.0.0.1", int(port), timeout=PATIENCE_S)
    c.request("GET", path, headers=dict(h.split(": ", 1) for h in headers))
    r = c.getresponse()
    return r.status, r.read().decode()


def get(port, path, *headers):
    """The appliance answers 503 when its polling threads do not run for half a second."""
    end = time.monotonic() + PATIENCE_S
    status, body = asked(port, path, *headers)
    while status == 503 and time.monotonic() < end:
        time.sleep(0.1)
        status, body = asked(port, path, *headers)
    print(status)
    sys.stdout.write(body)


SAMPLE = re.compile(r'^([a-z_][a-z0-9_]*)(\{(.*)\})? (-?[0-9.e+-]+|\+Inf|NaN)$')
LABEL = re.compile(r'([a-z_]+)="((?:[^"\\\n]|\\["\\n])*)"(?:,|$)')


def families(lines):
    """name -> type"""
    return {m[1]: m[2] for m in (re.match(r"# TYPE (\S+) (\S+)$", line) for line in lines) if m}


def family_of(name, types):
    short = re.sub(r"_(bucket|sum|count)$", "", name)
    return short if types.get(short) == "histogram" else name


def check(path):
    lines = open(path).read().split("\n")
    assert lines.pop() == "", "the text ends with a newline"
    types, told, seen, last, wrong = families(lines), set(), set(), None, []
    buckets = {}
    for line in lines:
        m = re.match(r"# HELP (\S+) (\S.*)$", line)
        if m:
            told.add(m[1])
            continue
        if line.startswith("# TYPE "):
            last = line.split()[2]
            if not last.startswith("weka_"):
                wrong.append("not ours: " + line)
            if (types[last] == "counter") != last.endswith("_total"):
                wrong.append("a counter ends in _total, nothing else does: " + line)
            continue
        m = SAMPLE.match(line)
        if not m:
            wrong.append("no sample: " + line)
            continue
        labels = LABEL.findall(m[3] or "")
        if ",".join(f'{k}="{v}"' for k, v in labels) != (m[3] or ""):
            wrong.append("labels: " + line)
        if family_of(m[1], types) != last:
            wrong.append("apart from its family: " + line)
        if (m[1], m[3]) in seen:
            wrong.append("twice: " + line)
        seen.add((m[1], m[3]))
        if m[1].endswith("_bucket"):
            of = tuple(x for x in labels if x[0] != "le")
            buckets.setdefault((last, of), []).append(float(m[4]))
    wrong += ["no HELP: " + name for name in types if name not in told]
    for (name, of), values in buckets.items():
        if values != sorted(values):
            wrong.append(f"buckets of {name} {of} go down")
        total = [line for line in lines if line.startswith(name + "_count{") and all(f'{k}="{v}"' in line for k, v in of)]
        if len(total) != 1 or float(total[0].split()[-1]) != values[-1]:
            wrong.append(f"the last bucket of {name} {of} is not its count")
    print("\n".join(wrong) or f"fine: {len(types) > 50 and len(buckets) > 0}")


def used(*paths):
    """Of the expressions only: a summary may hold any word."""
    found = set()
    for path in paths:
        text = open(path).read()
        if path.endswith(".json"):
            exprs = [t["expr"] for p in json.loads(text)["panels"] for t in p["targets"]]
        else:
            exprs = re.findall(r"^ *expr: (.*)$", text, re.M)
        assert exprs, path
        for e in exprs:
            for name in re.findall(r"\bweka_[a-z0-9_]+", e):
                found.add(re.sub(r"_bucket$", "", name))
    print("\n".join(sorted(found)))


def value(path, series):
    # FILE's lines are a scrape's; "weka_x" stands for all its series, 'weka_x{a="b"' for some.
    total = 0.0
    for line in open(path):
        if line.startswith(series) and line[len(series)] in " {,}":
            total += float(line.rsplit(" ", 1)[1])
    print(int(total) if total == int(total) else total)


def connect(port):
    s = socket.create_connection(("127.0.0.1", int(port)), timeout=PATIENCE_S)
    s.settimeout(5)
    return s


def rubbish(r):
    """One thing that is not a request, or a request that nobody should send."""
    word = lambda n: bytes(r.choice(b"ABCxyz019/%.?&=;:, \t\"<>") for _ in range(n))
    kinds = [
        lambda: r.randbytes(r.randrange(1, 400)),
        lambda: word(r.randrange(1, 300)) + b"\r\n\r\n",
        lambda: b"GET " + word(r.choice([1, 100, 9000, 70000])) + b" HTTP/1.1\r\n\r\n",
        lambda: b"GET /metrics HTTP/" + word(3) + b"\r\nHost: localhost\r\n\r\n",
        lambda: b"GET /metrics HTTP/1.1\r\n" + b"".join(b"X-%d: y\r\n" % i for i in range(r.choice([10, 1000]))) + b"\r\n",
        lambda: b"GET /metrics HTTP/1.1\r\nHost: " + r.randbytes(r.randrange(200)) + b"\r\n\r\n",
        lambda: b"POST /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + r.choice([b"-1", b"99999999999999999999", b"1e9", b"5"]) + b"\r\n\r\nabc",
        lambda: b"GET / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n" + r.choice([b"ffffffffffffffff\r\n", b"zz\r\n", b"-1\r\n", b"3\r\nabc"]),
        lambda: b"GET /" + r.choice([b"../../etc/passwd", b"%00", b"%2e%2e%2f", b"metrics%zz", b"metrics?" + b"a" * 5000]) + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        lambda: b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"[: r.randrange(1, 40)],
        lambda: b"\r\n" * r.randrange(1, 500),
        lambda: b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n" * r.choice([2, 20]),
        lambda: b"GET / HTTP/1.1\r\nHost: a\r\n b\r\n: \r\n\0: \0\r\n\r\n",
        lambda: b"GET / HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic " + word(r.choice([4, 600])) + b"\r\n\r\n",
    ]
    return r.choice(kinds)()


def vandal(port, count, seed):
    r = random.Random(int(seed))
    for _ in range(int(count)):
        s = connect(port)
        try:
            s.sendall(rubbish(r))
            how = r.random()
            if how < 0.2:  # gone without a word
                s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            elif how < 0.9:
                s.shutdown(socket.SHUT_WR)
                while s.recv(65536):
                    pass
        except OSError:
            pass  # the appliance may close at any byte
        s.close()
    print(count)


def closed(sockets, seconds):
    end, left = time.monotonic() + float(seconds), set(sockets)
    while left and time.monotonic() < end:
        for s in select.select(list(left), [], [], 0.5)[0]:
            try:
                gone = not s.recv(4096)
            except OSError:
                gone = True
            if gone:
                left.remove(s)
    return len(sockets) - len(left)


def idle(port, count, seconds):
    print(closed([connect(port) for _ in range(int(count))], seconds))


def slow(port, count, seconds):
    """Each sends a byte now and then.  After that somebody else wants to be heard; he asks again when the
    slow ones have not been accepted for as long as they may stay, which a busy machine may do late."""
    sockets = [connect(port) for _ in range(int(count))]
    end = time.monotonic() + float(seconds)
    while True:
        for s in sockets:
            try:
                s.sendall(b"G")
            except OSError:
                pass
        time.sleep(2)
        if time.monotonic() < end:
            continue
        try:
            return get(port, "/metrics")
        except (OSError, http.client.HTTPException):
            if time.monotonic() > end + PATIENCE_S:
                raise


if __name__ == "__main__":
    what, *args = sys.argv[1:]
    if what == "names":
        print("\n".join(sorted(families(open(args[0]).read().split("\n")))))
    elif what == "documented":
        print("\n".join(sorted(re.findall(r"^\.It Li (weka_\S+)$", open(args[0]).read(), re.M))))
    else:
        {"get": get, "check": check, "used": used, "value": value, "vandal": vandal, "idle": idle, "slow": slow}[what](*args)
