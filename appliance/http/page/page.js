// SPDX-License-Identifier: BSD-2-Clause-Patent
// The live page: asks for status.json once a second, and shows what changed since the second before.
// Whatever comes from there is written with textContent: drives and keys name themselves.
"use strict";

const HISTORY = 1800; // seconds that the plots remember
const byId = (id) => document.getElementById(id);

// ---- elements ----------------------------------------------------------------------------------

function element(tag, attributes, ...content) {
  const e = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) e.setAttribute(name, value);
  e.append(...content); // strings become text, never markup
  return e;
}

function setText(e, text) {
  if (e.textContent !== text) e.textContent = text;
}

// A list of facts: [name, value, wide?], in elements that stay.
function setFacts(list, facts) {
  facts.forEach(([name, value, wide], i) => {
    let at = list.children[i];
    if (!at) {
      at = element("div", {}, element("dt"), element("dd"));
      list.append(at);
    }
    at.className = wide ? "wide" : "";
    setText(at.firstChild, name);
    if (value instanceof Node) at.lastChild.replaceChildren(value);
    else setText(at.lastChild, value);
  });
  while (list.children.length > facts.length) list.lastChild.remove();
}

// columns: [title, is text?]; rows: arrays of strings and nodes, the first is the row's name.
function setTable(table, caption, columns, rows) {
  if (!table.tHead) {
    const head = columns.map(([title, isText]) => element("th", { scope: "col", role: "columnheader", class: isText ? "text" : "" }, title));
    table.setAttribute("role", "table"); // on a phone rows are blocks, which would be no table any more
    table.append(element("caption"), element("thead", { role: "rowgroup" }, element("tr", { role: "row" }, ...head)), element("tbody", { role: "rowgroup" }));
  }
  setText(table.caption, caption);
  const body = table.tBodies[0];
  rows.forEach((row, r) => {
    const tr = body.rows[r] || body.insertRow();
    tr.setAttribute("role", "row");
    row.forEach((value, i) => {
      let cell = tr.cells[i];
      if (!cell) {
        cell = element(i ? "td" : "th", i ? { role: "cell", "data-of": columns[i][0], class: columns[i][1] ? "text" : "" } : { scope: "row", role: "rowheader" });
        tr.append(cell);
      }
      if (value instanceof Node) cell.replaceChildren(value);
      else setText(cell, value);
    });
  });
  while (body.rows.length > rows.length) body.deleteRow(-1);
}

function withSub(text, sub) {
  const e = document.createDocumentFragment();
  e.append(text, element("span", { class: "sub" }, sub));
  return element("span", {}, e);
}

// parts: [class, part of 1]
function bar(label, ...parts) {
  const e = element("span", { class: "bar", role: "img", "aria-label": label });
  for (const [name, part] of parts) {
    const i = element("i", { class: name });
    i.style.width = `${Math.max(0, Math.min(1, part)) * 100}%`;
    e.append(i);
  }
  return e;
}

// ---- numbers -----------------------------------------------------------------------------------

function scaled(value, units, step) {
  let i = 0;
  for (; value >= step * 0.9995 && i + 1 < units.length; i++) value /= step;
  const digits = i === 0 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  return `${value.toFixed(digits)} ${units[i]}`.trimEnd();
}
const bytes = (v) => scaled(v, ["B", "kB", "MB", "GB", "TB", "PB", "EB"], 1000);
const perSecond = (v) => `${bytes(v)}/s`;
const count = (v) => (v < 9.95 && v % 1 ? v.toFixed(1) : scaled(v, ["", "k", "M", "G", "T"], 1000));
const whole = (v) => Math.round(v).toLocaleString("en");
const percent = (v) => `${(100 * v).toFixed(v < 0.0995 && v > 0 ? 1 : 0)} %`;
// Microseconds.
const time = (us) => (us === null ? "–" : us === 0 ? "0" : us < 999.5 ? `${us.toFixed(us < 9.95 ? 1 : 0)} µs` : us < 999500 ? `${(us / 1000).toFixed(us < 9950 ? 2 : us < 99500 ? 1 : 0)} ms` : `${(us / 1e6).toFixed(2)} s`);

function duration(seconds) {
  const d = Math.floor(seconds / 86400), h = Math.floor(seconds / 3600) % 24, m = Math.floor(seconds / 60) % 60;
  if (d) return `${d} d ${h} h`;
  if (h) return `${h} h ${m} min`;
  return m ? `${m} min ${Math.floor(seconds % 60)} s` : `${Math.floor(seconds)} s`;
}

// ---- latency: app_latency.h --------------------------------------------------------------------

const bucketFrom = (i) => (i < 2 ? i : (2 + (i & 1)) * 2 ** (i / 2 - (i & 1) / 2 - 1));

function addBuckets(into, more, sign) {
  more.forEach((n, i) => { into[i] = (into[i] || 0) + sign * n; });
  return into;
}

// Microseconds that `part` of the requests did not exceed; null: there were none.
function quantile(buckets, part) {
  const all = buckets.reduce((a, b) => a + (b || 0), 0);
  let left = all * part;
  if (!all) return null;
  for (let i = 0; i < buckets.length; i++) {
    const n = buckets[i] || 0;
    if (n && left <= n) return bucketFrom(i) + (left / n) * (bucketFrom(i + 1) - bucketFrom(i));
    left -= n;
  }
  return bucketFrom(buckets.length);
}

// request -> { buckets, by: transport -> count }
function latencyBetween(now, before) {
  const out = new Map();
  const add = (s, sign) => {
    for (const l of s ? s.latency : []) {
      const at = out.get(l.request) || { buckets: [], over: new Map() };
      addBuckets(at.buckets, l.buckets, sign);
      at.over.set(l.transport, (at.over.get(l.transport) || 0) + sign * l.buckets.reduce((a, b) => a + b, 0));
      out.set(l.request, at);
    }
  };
  add(now, 1);
  add(before, -1);
  return out;
}

// ---- plots -------------------------------------------------------------------------------------

const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const COLOURS = ["--blue", "--orange", "--green", "--purple", "--red", "--muted"];
const DASHES = [[], [6, 3], [2, 2], [8, 3, 2, 3]];
const times = [];
const plots = [];
let range = 300;

// What plots show: the last `range` seconds, or what there is of them, and at least one minute.
function shownTimes() {
  const now = times.length ? times[times.length - 1] : Date.now() / 1000;
  return [now - Math.min(range, Math.max(60, now - (times[0] || now))), now];
}

function clock(seconds) {
  const at = new Date(seconds * 1000), two = (n) => String(n).padStart(2, "0");
  return `${two(at.getHours())}:${two(at.getMinutes())}${at.getSeconds() ? `:${two(at.getSeconds())}` : ""}`;
}

function axis(side, format) {
  return {
    side,
    stroke: () => style("--muted"),
    grid: { stroke: () => style("--grid"), width: 1 },
    ticks: { stroke: () => style("--grid"), width: 1, size: 4 },
    font: "12px system-ui, sans-serif",
    size: side === 3 ? 66 : 26,
    values: (u, at) => at.map(format),
    space: side === 3 ? 30 : 70,
    gap: 4,
  };
}

// The axis goes from 0 to `top`, or to the largest value, and at least to `least`.
function addPlot(title, names, format, least, top) {
  const keys = names.map((name, i) => element("span", { class: `key c${i % COLOURS.length}` }));
  const box = element("div", { class: "plot", role: "img" });
  const figure = element("figure", { class: "card" }, element("figcaption", {}, element("strong", {}, title), ...keys), box);
  const plot = { title, names, format, keys, box, figure, data: names.map(() => []) };
  byId("plots").append(figure);
  plot.uplot = new uPlot({
    width: Math.max(200, box.clientWidth),
    height: 190,
    padding: [8, 6, 0, 0],
    legend: { show: false },
    cursor: { y: false, points: { size: 6 } },
    scales: {
      x: { time: true, range: shownTimes },
      y: { range: (u, low, high) => [0, top || Math.max(least, (high || 0) * 1.1)] },
    },
    axes: [axis(2, clock), axis(3, format)],
    series: [{}, ...names.map((name, i) => ({
      label: name,
      stroke: () => style(COLOURS[i % COLOURS.length]),
      width: 1.5,
      dash: DASHES[Math.floor(i / COLOURS.length) % DASHES.length],
      points: { show: false },
      spanGaps: false,
    }))],
  }, [times, ...plot.data], box);
  plots.push(plot);
  return plot;
}

// Every plot gets a value for each second; null is a gap.
function pushPlot(plot, values) {
  plot.data.forEach((series, i) => {
    series.push(values ? values[i] : null);
    if (series.length > HISTORY) series.shift();
  });
  plot.names.forEach((name, i) => {
    const v = values ? values[i] : null;
    setText(plot.keys[i], `${name} ${v === null || v === undefined ? "–" : plot.format(v)}`);
  });
  plot.box.setAttribute("aria-label", `${plot.title}: ${plot.keys.map((k) => k.textContent).join(", ")}`);
}

function drawPlots() {
  for (const p of plots) p.uplot.setData([times, ...p.data]);
}

// ---- what is shown -----------------------------------------------------------------------------

let before = null; // the status of the second before, and of up to ten before that
const past = [];
let coresPlot = null, throughput, requests, latency, drivesPlot, waiting;

function makePlots() {
  throughput = addPlot("Throughput", ["read", "written"], perSecond, 1000);
  requests = addPlot("Requests a second", ["reads", "changes", "others"], count, 4);
  latency = addPlot("Latency", ["median", "95 %", "99 %"], time, 10);
  drivesPlot = addPlot("Drives", ["read", "written"], perSecond, 1000);
  waiting = addPlot("Requests that clients wait for", ["at work", "not begun"], count, 4);
}

const READS = ["read", "read_batch"];
const CHANGES = ["put", "put_begin", "put_commit", "put_abort", "write", "truncate", "setattr", "mkdir", "rmdir", "unlink", "unlink_batch",
  "rename", "symlink", "link", "punch", "rmtree", "xattr_set", "xattr_del"];

function rates(now, was) {
  const seconds = (now.core.uptime_ns - was.core.uptime_ns) / 1e9;
  const rate = (get) => Math.max(0, get(now) - get(was)) / seconds;
  const kinds = Object.keys(now.requests).map((k) => [k, rate((s) => s.requests[k])]);
  const sum = (names) => kinds.filter(([k]) => names.includes(k)).reduce((a, [, v]) => a + v, 0);
  const all = kinds.reduce((a, [, v]) => a + v, 0);
  const reads = sum(READS), changes = sum(CHANGES);
  return {
    seconds,
    read: rate((s) => s.bytes.read), written: rate((s) => s.bytes.written),
    driveRead: rate((s) => s.bytes.drive_read), driveWritten: rate((s) => s.bytes.drive_written),
    reads, changes, others: all - reads - changes, all,
    items: rate((s) => s.items),
    cores: now.cores.map((c, i) => {
      const b = was.cores[i] || c;
      const slept = Math.min(1, (c.slept_ns - b.slept_ns) / 1e9 / seconds);
      const spun = Math.min(1 - slept, (c.spun_ns - b.spun_ns) / 1e9 / seconds);
      return { slept, spun, busy: Math.max(0, 1 - slept - spun), read: (c.read_bytes - b.read_bytes) / seconds, written: (c.written_bytes - b.written_bytes) / seconds };
    }),
    drives: new Map(now.drives.map((d) => {
      const b = was.drives.find((x) => x.number === d.number) || d;
      return [d.number, ((d.commands || 0) - (b.commands || 0)) / seconds];
    })),
  };
}

function showAlarms(alarms) {
  const list = byId("alarm-list");
  const key = JSON.stringify(alarms);
  if (list.dataset.key === key) return; // a screen reader hears changes only
  list.dataset.key = key;
  if (!alarms.length) {
    list.replaceChildren(element("li", { class: "card calm" }, "All is well: no alarms."));
    return;
  }
  list.replaceChildren(...alarms.map((a) => element("li", { class: `card ${a.severity === "critical" ? "critical" : "warning"}` },
    element("b", {}, `${a.severity === "critical" ? "Critical" : "Warning"}: ${a.text}`), a.action)));
}

function showTiles(s, r, quantiles) {
  const free = s.store.total_bytes ? s.store.free_bytes / s.store.total_bytes : 0;
  const bad = s.drives.filter((d) => d.health !== "good").length;
  setFacts(byId("tiles"), [
    ["Read", perSecond(r.read)], ["Written", perSecond(r.written)],
    ["Requests", `${count(r.all)}/s`], ["Items of batches", `${count(r.items)}/s`],
    ["Median latency", time(quantiles[0])], ["99 % within", time(quantiles[2])],
    ["Connections", whole(s.fabric.sessions_open)],
    ["Cores busy", percent(r.cores.reduce((a, c) => a + c.busy, 0) / Math.max(1, r.cores.length))],
    ["Free space", percent(free)], ["Drives well", `${s.drives.length - bad} of ${s.drives.length}`],
  ]);
}

function showOperations(s) {
  const first = past[0];
  const seconds = (s.core.uptime_ns - first.core.uptime_ns) / 1e9;
  const rows = [...latencyBetween(s, first)]
    .map(([name, l]) => [name, l, l.buckets.reduce((a, b) => a + (b || 0), 0)])
    .filter(([, , n]) => n > 0)
    .sort((a, b) => b[2] - a[2])
    .map(([name, l, n]) => [name, `${count(n / seconds)}/s`, time(quantile(l.buckets, 0.5)), time(quantile(l.buckets, 0.95)), time(quantile(l.buckets, 0.99)),
      [...l.over].filter(([, k]) => k > 0).map(([t, k]) => `${t} ${percent(k / n)}`).join(", ")]);
  setTable(byId("operation-table"), rows.length ? "Requests by kind, the most frequent first" : "No requests in the last 10 seconds.",
    [["Request", true], ["Rate"], ["Median"], ["95 %"], ["99 %"], ["Over", true]], rows);
}

const HEALTH = { good: "good", resetting: "warn", read_only: "warn" };

function showDrives(s, r) {
  const known = (v, text) => (v === undefined ? "–" : text(v));
  const rows = s.drives.map((d) => {
    const used = d.zones ? d.zones_used / d.zones : 0;
    const trouble = ["errors", "timeouts", "resets", "media_errors"].filter((k) => d[k] > 0).map((k) => `${d[k]} ${k.replace("_", " ")}`);
    const health = element("span", { class: `health ${HEALTH[d.health] || "bad"}` }, d.health.replace("_", " "));
    return [
      withSub(`${d.number}: ${d.model || "no drive"}`, [d.name, d.serial].filter(Boolean).join(" · ")),
      health,
      d.state,
      bytes(d.bytes),
      bar(`${percent(used)} of the zones are in use`, [used > 0.95 ? "bad" : "busy", used]),
      `${count(r.drives.get(d.number) || 0)}/s`,
      known(d.in_flight, whole),
      known(d.celsius, (v) => `${v} °C`),
      known(d.used_percent, (v) => `${v} %`),
      trouble.join(", ") || "none",
    ];
  });
  setTable(byId("drive-table"), "Drives of the store", [["Drive", true], ["Health", true], ["State", true], ["Size"], ["Zones in use", true], ["Commands"],
    ["In flight"], ["Temperature"], ["Life used"], ["Trouble since start", true]], rows);
}

function showCores(s, r) {
  const rows = s.cores.map((c, i) => {
    const at = r.cores[i];
    return [
      `core ${i}`,
      at.busy > 0.5 ? "busy" : at.slept > 0.9 ? "asleep" : at.spun > at.busy ? "polls, idle" : "working",
      bar(`busy ${percent(at.busy)}, polling in vain ${percent(at.spun)}, asleep ${percent(at.slept)}`, ["busy", at.busy], ["idle", at.spun]),
      percent(at.busy), percent(at.spun), percent(at.slept),
      whole(c.sessions_open), whole(c.requests_open), whole(c.queued), perSecond(at.read), perSecond(at.written),
    ];
  });
  setTable(byId("core-table"), "Polling threads", [["Core", true], ["State", true],
    ["Time", true], ["Busy"], ["Idle"], ["Asleep"], ["Connections"], ["At work"], ["Waiting"], ["Read"], ["Written"]], rows);
}

function showClients(s) {
  const f = s.fabric;
  setFacts(byId("client-list"), [
    ["Connections now", whole(f.sessions_open)], ["over shared memory", whole(f.shm_sessions)], ["over TCP", whole(f.tcp_sessions)], ["over RDMA", whole(f.rdma_sessions)],
    ["Requests at work", whole(s.cores.reduce((a, c) => a + c.requests_open, 0))], ["Requests waiting", whole(s.cores.reduce((a, c) => a + c.queued, 0))],
    ["Put off", whole(s.busy)], ["Cancelled", whole(s.cancelled)],
    ["Failed", whole(s.errors)], ["Found nothing", whole(s.not_found)],
    ["Refused logins", whole(f.refused_logins)], ["Broke the protocol", whole(f.protocol_errors)],
    ["Connections since start", whole(f.sessions)], ["Requests since start", whole(f.requests)],
  ]);
}

function showStore(s) {
  const st = s.store, used = st.total_bytes - st.free_bytes, part = st.total_bytes ? used / st.total_bytes : 0;
  const lookups = st.page_hits + st.page_reads, written = st.data_blocks + st.page_blocks + st.log_blocks + st.moved_blocks;
  const facts = [
    ["Space", element("span", {}, `${bytes(used)} of ${bytes(st.total_bytes)} used, ${bytes(st.free_bytes)} free`, bar(`${percent(part)} is used`, [part > 0.9 ? "bad" : "busy", part])), true],
    ["Files", whole(st.files)], ["Directories", whole(st.dirs)], ["Open files", whole(st.opens)], ["To be freed", whole(st.orphans)],
    ["Free zones", `${whole(st.zones_free)} of ${whole(st.zones_total)}`],
    ["Index in memory", bytes(st.cache_pages * 16384)], ["Found there", lookups ? percent(st.page_hits / lookups) : "–"], ["Still to be written", bytes(st.cache_pages_dirty * 16384)],
    ["Each block is on", `${st.copies} drive${st.copies === 1 ? "" : "s"}` + (st.converts ? `; ${bytes(st.one_copy_bytes)} still on ${st.sure_copies > 1 ? "two" : "one"}` : "")],
    ["Log is on", `${st.log_copies} drive${st.log_copies === 1 ? "" : "s"}`], ["Log written", bytes(st.log_blocks * 4096)], ["Checkpoints", whole(st.checkpoints)],
    ["Flash written", bytes(written * 4096)], ["for each byte of files", st.data_blocks ? (written / st.data_blocks).toFixed(2) : "–"],
    ["Collected zones", whole(st.zones_collected)], ["Moved by collection", bytes(st.moved_blocks * 4096)],
    ["Damaged files", whole(s.damage.files)], ["Out of reach", whole(s.damage.unreachable_files)],
    ["Staging in use", `${bytes(s.core.staging_used_bytes)} of ${bytes(s.core.staging_bytes)}`],
  ];
  if (s.scrub) facts.push(["Scrub", `round ${s.scrub.rounds + 1}, ${s.scrub.position_percent} %`], ["Scrub may read", perSecond(s.scrub.bytes_per_second)]);
  else facts.push(["Scrub", "off"]);
  if (s.memory) facts.push(["Memory, at most", bytes(s.memory.at_most_bytes)]);
  setFacts(byId("store-list"), facts);
}

function show(s) {
  setText(byId("uptime"), `· up for ${duration(s.core.uptime_ns / 1e9)}`);
  showAlarms(s.alarms || []);
  if (!before || before.core.uptime_ns > s.core.uptime_ns) past.length = 0; // it was started anew
  if (past.length) {
    const r = rates(s, past[past.length - 1]);
    const buckets = [...latencyBetween(s, past[past.length - 1]).values()].reduce((a, l) => addBuckets(a, l.buckets, 1), []);
    const quantiles = [0.5, 0.95, 0.99].map((q) => quantile(buckets, q));
    if (!coresPlot) coresPlot = addPlot("Cores busy", s.cores.map((c, i) => `core ${i}`), percent, 1, 1);
    while (coresPlot.data[0].length < times.length) coresPlot.data.forEach((d) => d.push(null));
    times.push(Date.now() / 1000);
    if (times.length > HISTORY) times.shift();
    pushPlot(throughput, [r.read, r.written]);
    pushPlot(requests, [r.reads, r.changes, r.others]);
    pushPlot(latency, quantiles);
    pushPlot(drivesPlot, [r.driveRead, r.driveWritten]);
    pushPlot(waiting, [s.cores.reduce((a, c) => a + c.requests_open, 0), s.cores.reduce((a, c) => a + c.queued, 0)]);
    pushPlot(coresPlot, r.cores.map((c) => c.busy));
    drawPlots();
    showTiles(s, r, quantiles);
    showOperations(s);
    showDrives(s, r);
    showCores(s, r);
  }
  showClients(s);
  showStore(s);
  past.push(s);
  if (past.length > 10) past.shift();
  before = s;
}

function showGap() {
  times.push(Date.now() / 1000);
  if (times.length > HISTORY) times.shift();
  for (const p of plots) pushPlot(p, null);
  drawPlots();
}

// ---- asking ------------------------------------------------------------------------------------

let paused = false, lost = 0;

function setLink(text, kind) {
  const link = byId("link");
  setText(link, text);
  link.className = `pill ${kind}`;
}

async function ask() {
  const answer = await fetch("status.json", { cache: "no-store", signal: AbortSignal.timeout(3000) });
  if (!answer.ok) throw new Error((await answer.text()).trim() || `HTTP ${answer.status}`);
  const version = answer.headers.get("X-Weka-Version");
  if (version) setText(byId("version"), `· ${version}`);
  return answer.json();
}

async function tick() {
  if (paused || document.hidden) return;
  try {
    const s = await ask();
    if (before && before.core.uptime_ns === s.core.uptime_ns) return; // the same snapshot
    show(s);
    lost = 0;
    setLink("live", "good");
  } catch (error) {
    lost = lost || Date.now();
    setLink(`no answer for ${Math.round((Date.now() - lost) / 1000)} s: ${error.name === "TypeError" ? "not reachable" : error.message}`, "bad");
    if (times.length) showGap();
  }
}

// ---- controls ----------------------------------------------------------------------------------

function setTheme(theme) {
  if (theme === "auto") document.documentElement.removeAttribute("data-theme");
  else document.documentElement.setAttribute("data-theme", theme);
  for (const p of plots) p.uplot.redraw();
}

function remembered(name, value) {
  try {
    if (value !== undefined) localStorage.setItem(name, value);
    return localStorage.getItem(name);
  } catch {
    return null; // it works without a memory
  }
}

function start() {
  makePlots();
  setText(byId("host"), location.hostname);
  document.title = `${location.hostname} · weka-appliance`;
  byId("theme").value = remembered("theme") || "auto";
  if (!byId("theme").value) byId("theme").value = "auto";
  setTheme(byId("theme").value);
  byId("theme").addEventListener("change", (e) => { remembered("theme", e.target.value); setTheme(e.target.value); });
  byId("range").addEventListener("change", (e) => { range = Number(e.target.value); drawPlots(); });
  byId("pause").addEventListener("click", () => {
    paused = !paused;
    byId("pause").setAttribute("aria-pressed", String(paused));
    setText(byId("pause"), paused ? "Go on" : "Pause");
    setLink(paused ? "paused" : "live", paused ? "warn" : "good");
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => setTheme(byId("theme").value));
  new ResizeObserver(() => {
    for (const p of plots) p.uplot.setSize({ width: Math.max(200, p.box.clientWidth), height: 190 });
  }).observe(byId("plots"));
  tick();
  setInterval(tick, 1000);
}

start();
