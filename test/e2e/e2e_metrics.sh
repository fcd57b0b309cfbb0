#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# Metrics over HTTP: what they say, who may ask, and that nobody on that port disturbs anybody.
cd "$(dirname "$0")/../.." && . test/e2e/lib.sh
: "${APP_CORES:=2}"

APP=$BIN/weka-appliance
ASK="python3 test/e2e/metrics.py"
HTTP=$((PORT + 1))
D0=file:$DIR/d0?size=256M
D1=file:$DIR/d1?size=256M
write_conf "$D0" "$D1"
cp "$CONF" "$DIR/plain.conf"
echo "metrics = 127.0.0.1:$HTTP" >>"$CONF"
check "format" "$BIN/wekactl" format --protect none "$D0" "$D1"

# ---- the configuration -----------------------------------------------------------------------------
with() { # LINE...: a configuration with these
	cp "$DIR/plain.conf" "$DIR/changed.conf"
	printf '%s\n' "$@" >>"$DIR/changed.conf"
}
checks() { refuses "--check-config: $1" "$2" "$APP" --check-config --config "$DIR/changed.conf"; }
for wrong in localhost:9620 9620 127.0.0.1 127.0.0.1:0 127.0.0.1:65536 127.0.0.1:9x ::1:9620 '[::1:9620' 'https://127.0.0.1:9620'; do
	with "metrics = $wrong"
	checks "metrics = $wrong" "changed.conf:[0-9]*: metrics: allowed is HOST:PORT, HOST a number"
done
with "metrics = 0.0.0.0:$HTTP"
checks "an address that others reach, and no token" "changed.conf:[0-9]*: metrics: others can reach this address, so it needs metrics_token_file"
with "metrics = [::]:$HTTP"
checks "the same with IPv6" "needs metrics_token_file"
(umask 077; echo 0123456789abcdef0123 >"$DIR/token")
with "metrics = 0.0.0.0:$HTTP" "metrics_token_file = $DIR/token"
check "with a token" "$APP" --check-config --config "$DIR/changed.conf"
chmod 644 "$DIR/token"
checks "a token that everybody can read" "metrics_token_file: $DIR/token: not its owner's alone"
chmod 600 "$DIR/token"
echo short >"$DIR/short"; chmod 600 "$DIR/short"
with "metrics = 0.0.0.0:$HTTP" "metrics_token_file = $DIR/short"
checks "a token that can be guessed" "metrics_token_file: $DIR/short: not a token"
refuses "which the start says, too" "not a token" "$APP" --config "$DIR/changed.conf"

# ---- what they say ---------------------------------------------------------------------------------
check "start" start
check "the log says where" said "info: serving metrics and the page at http://127.0.0.1:$HTTP/"
make_tree "$DIR/tree" 50
check "import" ctl import "$DIR/tree" /tree
check "export" ctl export /tree "$DIR/back"
"$BIN/wekactl" --connect "$TCP" --key "$DIR/key" ls /tree >/dev/null
(umask 077; printf '%064d\n' 7 >"$DIR/wrong.key")
scrape() { $ASK get "$HTTP" /metrics >"$DIR/scrape" && sed -i 1d "$DIR/scrape"; }
value() { $ASK value "$DIR/scrape" "$1"; }
# A client that gives up its hello on a busy machine, and comes again, is a login that was not proven, too:
# whoever started the appliance, or the one with the wrong key.
early=$(scrape && value weka_refused_logins_total)
refuses "a client with a wrong key" "does not hold our key" "$BIN/wekactl" --connect "$TCP" --key "$DIR/wrong.key" ls /
sleep 0.6 # the snapshot of before is good for half a second
check "a scrape" scrape
is "is Prometheus' format" "fine: True" "$($ASK check "$DIR/scrape")"
if command -v promtool >/dev/null; then
	is "promtool check metrics has nothing to say" "" "$(promtool check metrics <"$DIR/scrape" 2>&1)"
	check "promtool check rules" promtool check rules appliance/http/weka.rules.yml
else
	echo "skip: no promtool, which has checks of its own: apt install prometheus"
fi
$ASK names "$DIR/scrape" >"$DIR/names"
$ASK documented appliance/http/weka-metrics.5 >"$DIR/documented"
check "weka-metrics(5) has every metric, and no other" diff "$DIR/names" "$DIR/documented"
{ cat "$DIR/names"; $ASK used appliance/http/weka.rules.yml appliance/http/weka-dashboard.json; } | LC_ALL=C sort -u >"$DIR/all"
LC_ALL=C sort -u "$DIR/names" >"$DIR/names.sorted"
check "alerts and dashboard name no other" diff "$DIR/names.sorted" "$DIR/all"

files=$(find "$DIR/tree" ! -type d -printf x | wc -c)
is "files of the store" "$files" "$(value weka_store_files)"
check "requests were counted" [ "$(value weka_requests_total)" -ge 50 ]
is "each in a histogram" "$(value weka_core_request_duration_seconds_count)" "$(value weka_request_duration_seconds_count)"
check "by transport" [ "$(value 'weka_request_duration_seconds_count{request="list",transport="tcp"')" -ge 1 ]
is "two drives serve" 2 "$(value 'weka_drive_state{drive="0",state="serving"}' | cat - >"$DIR/v0"; value 'weka_drive_state{drive="1",state="serving"}' >"$DIR/v1"; awk '{ n += $1 } END { print n }' "$DIR/v0" "$DIR/v1")"
is "and are well" 1 "$(value 'weka_drive_health{drive="1",health="good"}')"
is "a drive has one state" 2 "$(value weka_drive_health)"
check "read bytes" [ "$(value weka_read_bytes_total)" -gt 10000000 ]
check "the wrong key was counted" [ "$(value weka_refused_logins_total)" -gt "$early" ]
is "changes are taken" 1 "$(value weka_store_writable)"
is "one core each" "$APP_CORES" "$(grep -c '^weka_core_turns_total' "$DIR/scrape")"

# The same snapshot: /status.json has the keys of wekactl status.
$ASK get "$HTTP" /status.json | sed 1d >"$DIR/status.http"
ctl --json status >"$DIR/status.ctl"
cat >"$DIR/keys.py" <<'PY'
import json, sys
def flat(at, v):
    if isinstance(v, dict):
        return set().union(*(flat(at + "." + k, w) for k, w in v.items()), set())
    if isinstance(v, list):
        return set().union(*(flat(at + "[]", w) for w in v), set())
    return {at}
a, b = (flat("", json.load(open(p))) for p in sys.argv[1:])
print(" ".join(sorted(a ^ b)))
PY
python3 "$DIR/keys.py" "$DIR/status.http" "$DIR/status.ctl" | tr ' ' '\n' >"$DIR/status.keys"
is "/status.json is wekactl's, but for what a look at each zone would cost" ".drives[].live_bytes .drives[].unmoved_bytes" \
	"$(grep -v '^\.clients' "$DIR/status.keys" | paste -sd ' ')"
check "and who is connected: that takes a key" grep -qx '.clients\[\].peer' "$DIR/status.keys"
check "which is not there over HTTP" sh -c "! grep -q peer '$DIR/status.http'"

# ---- who may ask -----------------------------------------------------------------------------------
answer() { $ASK get "$HTTP" "$@" | sed -n 1p; }
is "a path that is not there" 404 "$(answer /etc/passwd)"
is "localhost" 200 "$(answer /metrics 'Host: localhost')"
is "IPv6" 200 "$(answer /metrics 'Host: [::1]:1')"
is "a foreign name" 403 "$(answer /metrics 'Host: evil.example')"
is "a foreign name that begins like ours" 403 "$(answer /metrics 'Host: localhost.evil.example')"
is "a number with a tail" 403 "$(answer /metrics 'Host: 127.0.0.1.evil.example')"

# ---- vandals, while a client works -------------------------------------------------------------------
rss() { sed -n 's/^VmRSS:[[:space:]]*\([0-9]*\) kB/\1/p' "/proc/$DAEMON/status"; }
fds() { ls "/proc/$DAEMON/fd" | wc -l; }
before_kb=$(rss) before_fds=$(fds)
(
	n=0
	while [ ! -e "$DIR/enough" ]; do
		ctl cat /tree/size-65536 2>>"$DIR/client.err" | cmp -s - "$DIR/tree/size-65536" || echo "read $n" >>"$DIR/client.bad"
		n=$((n + 1)) && echo $n >"$DIR/client.count"
	done
) &
client=$!
$ASK idle "$HTTP" 200 120 >"$DIR/idle.closed" &
idle=$!
malformed=2000
[ "${TEST_LENGTH:-short}" = short ] || malformed=10000
is "$malformed malformed requests" $malformed "$($ASK vandal "$HTTP" $malformed 1)"
is "beside 200 connections that say nothing a scrape is answered" 200 "$(answer /metrics)"
wait $idle
is "the idle ones were closed" 200 "$(cat "$DIR/idle.closed")"
is "300 that send a byte now and then keep nobody out" 200 "$($ASK slow "$HTTP" 300 17 | sed -n 1p)"
worked() { # the client goes on until it read 20 times
	n=0
	until [ "$(cat "$DIR/client.count")" -ge 20 ]; do
		n=$((n + 1))
		[ $n -lt 600 ] || return 1
		sleep 0.1
	done
}
check "meanwhile a client worked" worked
touch "$DIR/enough"
wait $client
check "and read what it should, each time" [ ! -e "$DIR/client.bad" ]
has_hardly_grown() { [ $(($(rss) - before_kb)) -lt 24576 ]; } # what connections had goes back bit by bit
check "memory has hardly grown" eventually has_hardly_grown
closes_all() { # of those that have gone just now, too
	n=0
	until [ "$(fds)" -le $((before_fds + 4)) ]; do
		n=$((n + 1))
		[ $n -lt 600 ] || { fds; return 1; }
		sleep 0.1
	done
}
check "no descriptor is left" closes_all
is "no request of the store failed" 0 "$(scrape && value 'weka_request_failures_total{reason="error"}')"
# A client that gives up in its hello on a busy machine, and comes again, is refused, too.  The second
# refusal of a kind within 10 s has no line of its own: a later one says how many there were.
all_told() {
	n=0
	until [ "$("$BIN/wekactl" --connect "$TCP" --key "$DIR/key" --json status | sed -n 's/.*"refused":\([0-9]*\).*/\1/p')" = "$(
		sed -n 's/.*warning: WEKA-401: refused: \(.*\)/\1/p' "$DIR/daemon.log" |
			awk '{ n += match($0, /\([0-9]+ times more\)$/) ? substr($0, RSTART + 1) : 1 } END { print n + 0 }')" ]; do
		n=$((n + 1))
		[ $n -lt 600 ] || return 1
		sleep 0.1
	done
}
check "the log tells of each refusal" all_told
check "one is of the wrong key" grep -q 'WEKA-401: refused: tcp .* key "weka": it left at our proof' "$DIR/daemon.log"
is "and no other warning" "" "$(grep -aE ' (warning|error): ' "$DIR/daemon.log" | grep -av 'warning: WEKA-401: refused: ')"

# ---- reload, a token, an address that is taken -------------------------------------------------------
echo "metrics_token_file = $DIR/token" >>"$CONF"
kill -HUP "$DAEMON"
check "reload" said "weka.conf was read again"
is "now a token is wanted" 401 "$(answer /metrics)"
is "as a bearer" 200 "$(answer /metrics "Authorization: Bearer $(cat "$DIR/token")")"
is "or as a password" 200 "$(answer /metrics "Authorization: Basic $(printf 'me:%s' "$(cat "$DIR/token")" | base64)")"
is "not another" 401 "$(answer /metrics "Authorization: Bearer x$(cat "$DIR/token")")"
is "nor a part of it" 401 "$(answer /metrics "Authorization: Bearer 0123456789abcdef")"
is "nor as a user" 401 "$(answer /metrics "Authorization: Basic $(printf '%s:' "$(cat "$DIR/token")" | base64)")"
is "with it any name will do" 200 "$(answer /metrics 'Host: storage.example' "Authorization: Bearer $(cat "$DIR/token")")"
check "refusals are in the log" said "warning: WEKA-501: metrics: .* without the token were refused"
chmod 644 "$DIR/token"
kill -HUP "$DAEMON"
check "a token that others can read now" said "error: .*not its owner's alone.*; metrics are served as before"
is "changes nothing" 401 "$(answer /metrics)"
chmod 600 "$DIR/token"
sed -i "s/^metrics = .*/metrics = 127.0.0.1:$((HTTP + 1))/" "$CONF"
kill -HUP "$DAEMON"
check "a reload moves to another port" said "serving metrics and the page at http://127.0.0.1:$((HTTP + 1))/"
check "stop" stop
: >"$DIR/daemon.log"
cp "$DIR/plain.conf" "$CONF"
echo "metrics = 127.0.0.1:$HTTP" >>"$CONF"
mkfifo "$DIR/taken"
python3 -c "import socket, time; s = socket.create_server(('127.0.0.1', $HTTP)); print('taken', flush=True); time.sleep(600)" >"$DIR/taken" &
squatter=$!
is "another program takes the port" taken "$(head -n 1 "$DIR/taken")"
check "start with the port taken" start
check "the log says so" said "warning: .*metrics: 127.0.0.1:$HTTP: Address already in use; clients are served without metrics"
check "clients are served" ctl ls /tree
kill $squatter
check "metrics come when it is free" said "info: serving metrics and the page at"
is "and are served" 200 "$(answer /metrics)"
check "stop" stop
finish
