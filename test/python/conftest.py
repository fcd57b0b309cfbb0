# SPDX-License-Identifier: BSD-2-Clause-Patent
"""What the tests of the package weka share; test/e2e/e2e_python.sh starts the appliances.

WEKA_TEST_SHM, _TCP and _TLS are their addresses, WEKA_TEST_KEY is the file of their key.
"""
import contextlib
import gc
import itertools
import json
import os
import signal
import subprocess
import sys
import time

import pytest

import weka

KEY = os.environ["WEKA_TEST_KEY"]
# TLS uses the TCP transport, so a short run leaves out plain TCP.
KINDS = ("shm", "tls") if os.environ.get("TEST_LENGTH") == "short" else ("shm", "tcp", "tls")
ADDRESSES = {kind: os.environ["WEKA_TEST_" + kind.upper()] for kind in ("shm", "tcp", "tls")}
DAEMON = int(os.environ["WEKA_TEST_DAEMON"])  # the plain appliance
LONG = 240  # seconds: only what hangs takes as long, however busy the machine is
numbers = itertools.count()


def pytest_report_teststatus(report):
    return "", "", ""


def pytest_collectreport(report):
    """A file that needs what is not installed."""
    if report.skipped:
        print("skip: %s" % report.longrepr[2].replace("Skipped: ", ""))
    elif report.failed:
        print("not ok %s\n%s" % (report.nodeid, report.longreprtext))


def pytest_runtest_logreport(report):
    """One line a test, as test/run.sh counts them."""
    if report.when == "call" or report.failed or report.skipped:
        if report.skipped:
            print("skip: %s: %s" % (report.nodeid, report.longrepr[2]))
        elif report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            why = crash.message.split("\n")[0] if crash else ""
            print("not ok %s %s: %s\n%s" % (report.nodeid, report.when, why, report.longreprtext))
        else:
            print("ok", report.nodeid)
        sys.stdout.flush()


def connect(kind="shm", **options):
    options.setdefault("key_file", KEY)
    options.setdefault("pool_bytes", 16 << 20)
    options.setdefault("timeout", LONG)
    options.setdefault("connect_timeout", LONG)
    return weka.Client(ADDRESSES[kind], **options)


@pytest.fixture(scope="session")
def clients():
    """One for each transport, {kind: client}."""
    made = {kind: connect(kind, pool_bytes=32 << 20) for kind in ADDRESSES}
    yield made
    for c in made.values():
        c.close()


def pool_used(c):
    """Bytes that are leased, once the appliance has let go of what was cancelled."""
    gc.collect()
    until = time.monotonic() + 60
    while c.info()["pool_used_bytes"] > 0 and time.monotonic() < until:
        c.stat("/")
    return c.info()["pool_used_bytes"]


def lent(c):
    yield c
    assert pool_used(c) == 0, "a lease has leaked"


@pytest.fixture(params=KINDS)
def client(request, clients):
    yield from lent(clients[request.param])


@pytest.fixture
def shm(clients):
    yield from lent(clients["shm"])


@pytest.fixture
def maker(request, clients):
    """The test's client, or one beside it."""
    return request.getfixturevalue("client") if "client" in request.fixturenames else clients["shm"]


@pytest.fixture
def top(maker):
    """A directory of the test's own."""
    path = "/t%d-%d" % (os.getpid(), next(numbers))
    maker.mkdir(path)
    yield path
    maker.rmtree(path)


@pytest.fixture(autouse=True)
def deadline():
    """A test that hangs is a failure in the end, with a traceback."""

    def late(*_):
        raise AssertionError("the test takes more than %d s" % (LONG + 60))

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(LONG + 60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def content(number, size=None):
    """Bytes that tell files apart, of every kind of size."""
    size = number * 97 % 20000 if size is None else size
    return (b"%08d" % number * (size // 8 + 1))[:size]


@pytest.fixture(scope="session")
def made():
    """What files() has made, of each appliance."""
    return {}


@pytest.fixture
def files(maker, made):
    """600 files, {path: bytes}, for reading only."""
    appliance = maker.addresses.split(":")[0].replace("tcp", "shm")
    if appliance not in made:
        made[appliance] = {"/files/f%d" % n: content(n) for n in range(600)}
        maker.mkdir("/files")
        maker.put_batch(list(made[appliance].items()))
    return dict(made[appliance])


def environment():
    """For a process of its own: there weka.Client() connects."""
    return dict(os.environ, WEKA_ADDRESS=ADDRESSES["shm"], WEKA_KEY_FILE=KEY)


def run_python(code, *args, **kwargs):
    """A Python of its own, with the same package."""
    return subprocess.run([sys.executable, "-c", code, *args], env=environment(), timeout=LONG, text=True,
                          capture_output=True, **kwargs)


def start_python(code, *args):
    """The same, in three pipes."""
    return subprocess.Popen([sys.executable, "-c", code, *args], env=environment(), text=True, stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)


# ---- the appliance, from outside


def sessions_of(process):
    """How many sessions of that process the plain appliance serves."""
    control = [os.path.join(os.environ["WEKA_TEST_BIN"], "wekactl"), "-c", ADDRESSES["shm"], "-k", KEY]
    text = subprocess.run(control + ["--json", "status"], check=True, capture_output=True, text=True).stdout
    return sum(c["peer"].endswith(" process %d" % process) for c in json.loads(text)["clients"])


def has_let_go(process):
    """The appliance has let go of a process that has ended, and of the requests that it had sent."""
    until = time.monotonic() + 60
    while sessions_of(process) > 0 and time.monotonic() < until:
        pass
    return sessions_of(process) == 0


def task_state(process, task):
    """The letter that proc(5) has, "X" if the thread has ended."""
    try:
        with open("/proc/%d/task/%s/stat" % (process, task)) as f:
            return f.read().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "X"


def stop():
    """The plain appliance does nothing more: SIGSTOP alone returns while threads still run."""
    os.kill(DAEMON, signal.SIGSTOP)
    while not all(task_state(DAEMON, task) in "TXZ" for task in os.listdir("/proc/%d/task" % DAEMON)):
        time.sleep(0.001)


def go_on():
    os.kill(DAEMON, signal.SIGCONT)


@contextlib.contextmanager
def halted():
    """The plain appliance is stopped."""
    try:
        stop()
        yield
    finally:
        go_on()
