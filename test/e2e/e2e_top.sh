#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# wekactl top on a terminal and for scripts, clients, space.
cd "$(dirname "$0")/../.." && . test/e2e/lib.sh
: "${APP_CORES:=2}"

D0=file:$DIR/d0?size=128M
write_conf "$D0"
echo "key_dir = $DIR/keys" >>"$CONF"
check "format" "$BIN/wekactl" format "$D0"
check "a key for a loader" "$BIN/wekactl" --config "$CONF" --write keys add loader "$DIR/loader"
check "a key of a user" "$BIN/wekactl" --config "$CONF" --uid 1000 --gids 1000 keys add user "$DIR/user"
check "start" start
mkdir "$DIR/tree" "$DIR/tree/big" "$DIR/tree/small"
head -c 3000000 /dev/urandom >"$DIR/tree/big/file"
head -c 5000 /dev/urandom >"$DIR/tree/small/file"
head -c 70000 /dev/urandom >"$DIR/tree/here"
check "import" ctl -q import "$DIR/tree" /

# ---- clients --------------------------------------------------------------------------------------
# One that stays: its input comes from a pipe that is open until it is told.
mkfifo "$DIR/pipe"
"$BIN/wekactl" --connect "$TCP" --key "$DIR/loader" put - /piped <"$DIR/pipe" >"$DIR/put.out" 2>&1 &
loader=$!
exec 9>"$DIR/pipe"
head -c 100000 /dev/urandom >&9
there() {
	n=0
	until ctl clients | grep -q "$1"; do
		n=$((n + 1))
		[ $n -lt 1200 ] || return 1
		sleep 0.05
	done
}
check "a client is there, with its key, transport and address" there '^loader  *tcp .*127\.0\.0\.1:[0-9]*$'
check "over shm it is a process" there "^weka  *shm .*user $(id -u), process [0-9]*\$"
ctl --json clients >"$DIR/clients"
check "clients are objects, one a line" python3 - "$DIR/clients" <<'PY'
import json, sys
all = [json.loads(line) for line in open(sys.argv[1])]
# Earlier commands may still be on their way out.
assert {c["key"] for c in all} == {"loader", "weka"}, all
[loader] = [c for c in all if c["key"] == "loader"]
assert loader["transport"] == "tcp" and loader["connections"] >= 1, loader
assert loader["credits"] > 0 and loader["connected_s"] < 600, loader
PY
refuses "a key of a user is not told" "may not see who is connected" \
	"$BIN/wekactl" --connect "$TCP" --key "$DIR/user" clients

# ---- top, for scripts -------------------------------------------------------------------------------
ctl --once top >"$DIR/top"
check "a page names the clients" grep -q '^loader  *tcp ' "$DIR/top"
check "and no line is wider than 80" awk 'length > 80 { exit 1 }' "$DIR/top"
ctl --once --json top >"$DIR/top.json"
ctl --json top 1 | head -2 >"$DIR/tops.json"
is "an object every second" 2 "$(wc -l <"$DIR/tops.json")"
check "rates, percentiles, cores, drives and clients are there" python3 - "$DIR/top.json" "$APP_CORES" <<'PY'
import json, sys
t = json.load(open(sys.argv[1]))
assert 0.5 < t["seconds"] < 60, t["seconds"]
assert t["requests_per_second"] > 0 and t["read_bytes_per_second"] == 0, t
# The one status between the two.
[status] = [r for r in t["requests"] if r["request"] == "status"]
assert 0 < status["p50_us"] <= status["p99_us"] <= status["p999_us"], status
assert len(t["cores"]) == int(sys.argv[2]), t["cores"]
for c in t["cores"]:
    assert abs(sum(c.values()) - 100) < 0.001, c
assert [d["condition"] for d in t["drives"]] == ["good"], t["drives"]
assert {c["key"] for c in t["clients"]} == {"loader", "weka"}, t["clients"]
PY
refuses "seconds are a number" "'soon' is not a number" "$BIN/wekactl" --connect "$SHM" --key "$DIR/key" top soon

# ---- top, on a terminal --------------------------------------------------------------------------
python3 test/e2e/terminal.py "$BIN/wekactl" --connect "$SHM" --key "$DIR/key" top >"$DIR/terminal"
cat "$DIR/terminal"
failures=$((failures + $(grep -c '^not ok' "$DIR/terminal")))
check "all of that was tried" [ "$(grep -c '^ok' "$DIR/terminal")" -ge 18 ]

exec 9>&-
check "the client ends" wait $loader

# ---- space ----------------------------------------------------------------------------------------
settled() { ctl --json du / | grep -q '"settled":true'; }
n=0; until settled || [ $n = 1200 ]; do sleep 0.05; n=$((n + 1)); done
ctl space >"$DIR/space"
is "the largest directory is first" "3.0 MB    3.0 MB          1  big/" "$(sed -n '/ in \/$/{n;s/^ *//;p}' "$DIR/space")"
check "files of the directory itself are one line" grep -q ' 2  (files)$' "$DIR/space"
ctl --json space >"$DIR/space.json"
check "the parts add up" python3 - "$DIR/space.json" <<'PY'
import json, sys
s = json.load(open(sys.argv[1]))
parts = sum(s[k + "_bytes"] for k in ("files", "index", "log", "dead", "empty"))
assert parts == s["drives_bytes"] > 100e6, s
assert s["free_bytes"] + s["kept_bytes"] == s["dead_bytes"] + s["empty_bytes"], s
# Blocks of 4096: the files that were imported, and the one that was put.
assert s["files_bytes"] == 4096 * (733 + 2 + 18 + 25), s
assert {d["directory"]: d["bytes"] for d in s["directories"]} == {"big": 3000000, "small": 5000, None: 170000}, s
PY
refuses "a directory that is not there" "nowhere: No such file" "$BIN/wekactl" --connect "$SHM" --key "$DIR/key" space /nowhere >/dev/null
check "stop" stop
refuses "top says that nobody answers" "weka.sock: No such file" "$BIN/wekactl" --connect "$SHM" --key "$DIR/key" --once top
finish
