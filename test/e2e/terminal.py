#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause-Patent
# wekactl top on a terminal: terminal.py COMMAND...; prints "ok NAME" and "not ok NAME" lines.
# The terminal is a pseudo terminal, and this program draws its screen from the output.
import fcntl, os, re, select, signal, struct, subprocess, sys, termios, time

ENTER, LEAVE = b"\033[?1049h", b"\033[?1049l"


def say(name, good, more=""):
    print(("ok " if good else "not ok ") + name + ("" if good else "\n  " + repr(more)[-400:]), flush=True)


class Terminal:
    def __init__(self, rows, columns):
        self.master, self.slave = os.openpty()
        self.size(rows, columns)
        self.before = termios.tcgetattr(self.slave)
        self.all = b""
        self.process = None

    def size(self, rows, columns):
        self.rows, self.columns = rows, columns
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def run(self, command):
        def its_own():
            os.setsid()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        self.process = subprocess.Popen(command, stdin=self.slave, stdout=self.slave, stderr=self.slave, preexec_fn=its_own)

    def read(self, seconds=0.05):
        if not select.select([self.master], [], [], seconds)[0]:
            return False
        self.all += os.read(self.master, 65536)
        return True

    # Reads on until `what` is true of the screen.
    def until(self, what, seconds=120):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.read()
            if what(self.screen()):
                return True
        return False

    # The rows of the last page that is complete.
    def screen(self):
        pages = self.all.split(b"\033[H")
        whole = [p for p in pages[1:] if b"\033[J" in p]
        if not whole:
            return []
        text = whole[-1].split(b"\033[J")[0].replace(b"\033[K", b"").decode("latin-1")
        return text.split("\r\n")

    def end(self, seconds=120):
        end = time.monotonic() + seconds
        while self.process.poll() is None and time.monotonic() < end:
            self.read()
        if self.process.poll() is None:
            self.process.kill()
        return self.process.wait()

    # What a program has written may come here later than its end.
    def is_restored(self):
        return self.until(lambda rows: self.is_as_before())

    def is_as_before(self):
        return (termios.tcgetattr(self.slave) == self.before and self.all.rfind(LEAVE) > self.all.rfind(ENTER) >= 0
                and self.all.rfind(b"\033[?25h") > self.all.rfind(b"\033[?25l"))


def fits(t):
    rows = t.screen()
    return 0 < len(rows) <= t.rows and all(len(r) <= t.columns for r in rows)


def has(text):
    return lambda rows: any(text in r for r in rows)


command = sys.argv[1:]
t = Terminal(24, 80)
t.run(command)
say("top draws a page", t.until(has("client's key")), t.all)
say("it fits 24 rows of 80 columns", fits(t), t.screen())
say("keys are not echoed", not termios.tcgetattr(t.slave)[3] & (termios.ECHO | termios.ICANON))
os.write(t.master, b"s")
say("s sorts the clients by what they read", t.until(has("by read")), t.screen())
os.write(t.master, b"p")
say("p pauses", t.until(has("PAUSED")), t.screen())
t.size(14, 60)
t.process.send_signal(signal.SIGWINCH)
say("a smaller terminal is filled while it is paused", t.until(lambda rows: 0 < len(rows) <= 14 and all(len(r) <= 60 for r in rows)), t.screen())
os.write(t.master, b"p")
say("p goes on", t.until(lambda rows: rows and not has("PAUSED")(rows)), t.screen())
os.write(t.master, b"\x1a")  # Ctrl-Z
pid, status = os.waitpid(t.process.pid, os.WUNTRACED)
say("Ctrl-Z stops it", os.WIFSTOPPED(status), status)
say("and the terminal is as it was", t.is_restored(), t.all)
before = len(t.all)
t.process.send_signal(signal.SIGCONT)
say("it goes on and draws the page again", t.until(lambda rows: t.all.rfind(ENTER) >= before and b"\033[J" in t.all[before:]), t.all[before:])
os.write(t.master, b"q")
say("q ends it: 0", t.end() == 0)
say("and the terminal is as it was after q", t.is_restored(), t.all)

for name, number, act in (("Ctrl-C", signal.SIGINT, lambda t: os.write(t.master, b"\x03")),
                          ("SIGTERM", signal.SIGTERM, lambda t: t.process.send_signal(signal.SIGTERM)),
                          ("SIGHUP", signal.SIGHUP, lambda t: t.process.send_signal(signal.SIGHUP))):
    t = Terminal(24, 80)
    t.run(command)
    t.until(has("client's key"))
    act(t)
    say(f"{name} ends it by that signal", t.end() == -number, t.all)
    say(f"and the terminal is as it was after {name}", t.is_restored(), t.all)
