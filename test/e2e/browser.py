#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause-Patent
"""Looks at the live page with Chromium, as somebody with a mouse, a keyboard, or a phone does.

    browser.py URL OUT          prints "ok ..." and "not ok ..." lines, and "reload" before it waits for
                                the appliance to be gone and back; screenshots go to the directory OUT

Speaks the DevTools protocol over a pipe, so it needs nothing but Chromium.
"""
import base64
import json
import os
import select
import subprocess
import sys
import tempfile
import time

URL, OUT = sys.argv[1:3]
SECTIONS = ["alarms", "now", "operations", "drives", "cores", "clients", "store"]
failed = 0


def says(ok, name, detail=""):
    global failed
    failed += not ok
    print(("ok " if ok else "not ok ") + name + (f"\n  {str(detail)[:2000]}" if detail and not ok else ""), flush=True)


class Browser:
    """One tab."""

    def __init__(self):
        self.home = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        to_r, self.to = os.pipe()
        self.of, of_w = os.pipe()
        # Chromium wants commands at descriptor 3, and answers at 4.
        command = ["sh", "-c", f'exec "$@" 3<&{to_r} 4>&{of_w}', "sh", "chromium", "--headless=new", "--remote-debugging-pipe",
                   "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking",
                   "--disable-component-update", "--disable-sync", "--hide-scrollbars", f"--user-data-dir={self.home.name}"]
        self.process = subprocess.Popen(command, pass_fds=(to_r, of_w), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_r)
        os.close(of_w)
        self.number, self.session, self.rest, self.events = 0, None, b"", []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network", "Accessibility", "DOM"):
            self.call(domain + ".enable")

    def read(self, end):
        while b"\0" not in self.rest:
            if not select.select([self.of], [], [], max(0, end - time.monotonic()))[0]:
                return None
            more = os.read(self.of, 1 << 20)
            if not more:
                raise EOFError("chromium has ended")
            self.rest += more
        message, self.rest = self.rest.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + 120
        while True:
            answer = self.read(end)
            if answer is None:
                raise TimeoutError(method)
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def run(self, script):
        r = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in r:
            raise RuntimeError(f"{script}: {r['exceptionDetails']}")
        return r["result"].get("value")

    def wait(self, script, seconds=60):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.run(script):
                return True
            time.sleep(0.1)
        return False

    def key(self, key, code):
        for kind in ("rawKeyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code)
        if key == "Enter":
            self.call("Input.dispatchKeyEvent", type="char", text="\r")

    def click(self, selector):
        at = self.run(f"""(() => {{ const e = document.querySelector({json.dumps(selector)}); e.scrollIntoView({{block: "nearest"}});
            const b = e.getBoundingClientRect(); return [b.x + b.width / 2, b.y + b.height / 2]; }})()""")
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=at[0], y=at[1], button="left", clickCount=1)

    def end(self):
        self.process.kill()
        self.process.wait()
        self.home.cleanup()


# Text whose colour is too near to what is behind it (WCAG AA).
CONTRAST = r"""(() => {
  const parse = (c) => { const n = c.match(/[\d.]+/g).map(Number); return n.length === 4 ? n : [...n, 1]; };
  const light = (c) => { const [r, g, b] = c.map((v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const behind = (e) => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor); if (c[3] === 1) return c; } return [255, 255, 255, 1]; };
  const bad = new Set();
  let looked = 0;
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const e = walk.currentNode.parentElement, s = getComputedStyle(e);
    if (!walk.currentNode.textContent.trim() || !e.getClientRects().length || ["SCRIPT", "NOSCRIPT", "OPTION"].includes(e.tagName)) continue;
    const a = light(parse(s.color)), b = light(behind(e)), ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const large = parseFloat(s.fontSize) >= 24 || (parseFloat(s.fontSize) >= 18.66 && s.fontWeight >= 700);
    looked++;
    if (ratio < (large ? 3 : 4.5)) bad.add(`${e.tagName}.${e.className} "${walk.currentNode.textContent.trim().slice(0, 20)}" ${ratio.toFixed(2)}`);
  }
  return { looked, bad: [...bad] };
})()"""

# Lines of the plots against the card behind them: 3 to 1.
LINES = r"""(() => {
  const s = getComputedStyle(document.documentElement);
  const hex = (n) => s.getPropertyValue(n).trim().match(/[0-9a-f]{2}/gi).map((v) => parseInt(v, 16));
  const light = (c) => { const [r, g, b] = c.map((v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const b = light(hex("--card"));
  return ["--blue", "--orange", "--green", "--purple", "--red", "--muted"].filter((n) => { const a = light(hex(n)); return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05) < 3; });
})()"""

NAMED = {"link", "button", "combobox", "img", "image", "table", "navigation", "heading", "region", "group", "columnheader", "rowheader", "textbox", "figure"}


def nameless(b):
    """Roles of what has no accessible name although somebody may need one."""
    found = []
    for node in b.call("Accessibility.getFullAXTree")["nodes"]:
        role = node.get("role", {}).get("value")
        if node.get("ignored") or role not in NAMED - {"group", "figure", "region"}:
            continue
        if not node.get("name", {}).get("value", "").strip():
            found.append(role)
    return found


def open_page(b, theme, width):
    b.call("Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=width < 500)
    b.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": theme}])
    b.call("Page.navigate", url=URL)
    name = f"{theme}, {width} pixels"
    says(b.wait("document.getElementById('link')?.textContent === 'live' && document.querySelectorAll('#tiles dd').length > 5"), f"{name}: the page is live")
    says(b.wait("times.length >= 4"), f"{name}: plots move on")
    return name


def look(b, theme, width):
    name = open_page(b, theme, width)
    says(b.run("document.documentElement.scrollWidth <= innerWidth"), f"{name}: nothing is wider than the window", b.run(
        "[...document.querySelectorAll('*')].filter((e) => e.getBoundingClientRect().right > innerWidth + 1).map((e) => e.tagName + '.' + e.className + '#' + e.id).slice(0, 10)"))
    for section in SECTIONS:
        b.run("scrollTo(0, 0)")
        b.click(f'nav a[href="#{section}"]')
        seen = f"""(() => {{ const r = document.getElementById({section!r}).getBoundingClientRect();
            const head = getComputedStyle(document.querySelector('.top')).position === 'sticky' ? document.querySelector('.top').getBoundingClientRect().bottom : 0;
            return location.hash === '#{section}' && r.top >= head - 2 && r.top < innerHeight; }})()"""
        says(b.wait(seen), f"{name}: a click leads to {section}", b.run(f"[location.hash, document.getElementById({section!r}).getBoundingClientRect().top, innerHeight]"))
    contrast = b.run(CONTRAST)
    says(contrast["looked"] > 80 and not contrast["bad"], f"{name}: text can be read on what is behind it", contrast)
    says(b.run(LINES) == [], f"{name}: so can the lines of the plots", b.run(LINES))
    says(nameless(b) == [], f"{name}: controls, plots and tables have names", nameless(b))
    b.run("scrollTo(0, 0)")
    size = b.call("Page.getLayoutMetrics")["cssContentSize"]
    shot = b.call("Page.captureScreenshot", captureBeyondViewport=True, clip={"x": 0, "y": 0, "width": width, "height": size["height"], "scale": 1})
    with open(f"{OUT}/page-{theme}-{width}.png", "wb") as f:
        f.write(base64.b64decode(shot["data"]))


def work(b):
    """What it shows, under load."""
    text = lambda name: b.run(f"""[...document.querySelectorAll('#tiles > div')].find((d) => d.firstChild.textContent === {name!r})?.lastChild.textContent""")
    says(b.wait("[...document.querySelectorAll('#tiles > div')].find((d) => d.firstChild.textContent === 'Read').lastChild.textContent.match(/[kMG]B.s/)"), "it shows what is read", text("Read"))
    says(b.wait("[...document.querySelectorAll('#tiles > div')].find((d) => d.firstChild.textContent === '99 % within').lastChild.textContent.match(/[mµ]s/)"), "and how long that takes", text("99 % within"))
    says(b.run("document.querySelectorAll('#operation-table tbody tr').length") > 0, "operations are listed")
    says(b.run("document.querySelectorAll('#drive-table tbody tr').length") == 2, "two drives are listed")
    says(b.run("[...document.querySelectorAll('.health')].every((e) => e.textContent === 'good')"), "they are well")
    says(b.run("document.querySelectorAll('#core-table tbody tr').length") > 0, "cores are listed")
    # A drive of this appliance is called like markup.
    says(b.run("document.getElementById('drive-table').textContent.includes('<img src=x onerror=document.title=666>')"), "a drive's name is text", b.run("document.getElementById('drive-table').textContent"))
    says(b.run("document.querySelectorAll('img, script:not([src]), iframe').length") == 0 and b.run("document.title") != "666", "and no markup")
    b.run("showAlarms([{severity: 'critical', text: '<b>Drive 1</b> is dead', action: 'Replace it.'}, {severity: 'warning', text: 'Little space', action: 'Remove data.'}])")
    says(b.run("document.querySelectorAll('#alarm-list li b').length") == 2 and b.run("document.getElementById('alarm-list').textContent.includes('<b>Drive 1</b>')"), "alarms are text, too")
    says(b.run(CONTRAST)["bad"] == [], "and can be read", b.run(CONTRAST))
    shot = b.call("Page.captureScreenshot")
    with open(f"{OUT}/alarms.png", "wb") as f:
        f.write(base64.b64decode(shot["data"]))
    drawn = """[...document.querySelectorAll('.plot canvas')].map((c) => { const copy = new OffscreenCanvas(c.width, c.height).getContext('2d', { willReadFrequently: true });
        copy.drawImage(c, 0, 0); const d = copy.getImageData(0, 0, c.width, c.height).data; let n = 0; for (let i = 3; i < d.length; i += 4) n += d[i] > 0; return n; })"""
    says(len(b.run(drawn)) == 6 and min(b.run(drawn)) > 500, "six plots are drawn", b.run(drawn))


def keyboard(b):
    b.run("document.activeElement.blur(); scrollTo(0, 0)")
    seen = []
    for _ in range(60):
        b.key("Tab", 9)
        at = b.run("document.activeElement.id || document.activeElement.getAttribute('href') || ''")
        if not at or at in seen:
            break
        seen.append(at)
        if len(seen) < 4:
            says(b.run("getComputedStyle(document.activeElement).outlineStyle") != "none", f"a ring shows that {at} has the focus")
    wanted = ["#main", "range", "theme", "pause"] + ["#" + s for s in SECTIONS] + ["metrics", "status.json"]
    says([s for s in seen if s in wanted] == wanted, "Tab reaches all controls, in their order", seen)
    b.run("document.getElementById('pause').focus()")
    b.key("Enter", 13)
    says(b.wait("document.getElementById('pause').getAttribute('aria-pressed') === 'true' && document.getElementById('link').textContent === 'paused'"), "Enter pauses")
    count = b.run("times.length")
    time.sleep(2.2)
    says(b.run("times.length") == count, "and it is paused")
    b.key("Enter", 13)
    says(b.wait(f"times.length > {count}"), "and goes on")
    b.run("(() => { const t = document.getElementById('theme'); t.value = 'light'; t.dispatchEvent(new Event('change')); })()")
    light = b.run("getComputedStyle(document.body).backgroundColor")
    b.run("(() => { const t = document.getElementById('theme'); t.value = 'dark'; t.dispatchEvent(new Event('change')); })()")
    says(b.run("getComputedStyle(document.body).backgroundColor") != light, "a theme can be chosen")
    b.run("(() => { const t = document.getElementById('range'); t.value = '60'; t.dispatchEvent(new Event('change')); })()")
    says(b.run("(() => { const s = plots[0].uplot.scales.x; return Math.round(s.max - s.min); })()") == 60, "and how much of the past plots show")


def restart(b):
    print("reload", flush=True)
    says(b.wait("document.getElementById('link').textContent.startsWith('no answer')"), "without the appliance the page says so")
    print("start", flush=True)
    says(b.wait("document.getElementById('link').textContent === 'live'"), "and goes on when it is back")


def complaints(b, expected):
    """What the console said, and who else was asked."""
    errors, foreign = [], []
    for e in b.events:
        p = e.get("params", {})
        if e.get("method") == "Runtime.exceptionThrown":
            errors.append(p["exceptionDetails"].get("exception", {}).get("description") or p["exceptionDetails"]["text"])
        elif e.get("method") == "Runtime.consoleAPICalled" and p["type"] in ("error", "warning", "assert"):
            errors.append(str(p["args"]))
        elif e.get("method") == "Log.entryAdded" and p["entry"]["level"] in ("error", "warning"):
            errors.append(p["entry"]["text"])
        elif e.get("method") == "Network.requestWillBeSent" and not p["request"]["url"].startswith((URL, "data:,", "about:")):
            foreign.append(p["request"]["url"])
    b.events = []
    return [e for e in errors if not expected or expected not in e], foreign


def main():
    b = Browser()
    try:
        for theme in ("light", "dark"):
            for width in (1440, 360):
                look(b, theme, width)
                if theme == "light" and width == 1440:
                    work(b)
        open_page(b, "light", 1440)
        keyboard(b)
        errors, foreign = complaints(b, None)
        says(errors == [], "the console has nothing to say", errors)
        says(foreign == [], "nobody else was asked for anything", foreign)
        restart(b)
        errors, foreign = complaints(b, "net::ERR_")
        says(errors == [] and foreign == [], "nor while it was gone, but that", errors + foreign)
    finally:
        b.end()
    sys.exit(failed > 0)


main()
