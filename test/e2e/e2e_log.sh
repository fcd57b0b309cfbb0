#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# wekactl log: the last lines of the daemon's log, over each transport, and who may see them.
cd "$(dirname "$0")/../.." && . test/e2e/lib.sh
: "${APP_CORES:=2}"

write_conf mem:128M
echo "key_dir = $DIR/keys" >>"$CONF"
"$BIN/wekactl" --config "$CONF" keys add reader "$DIR/reader" >/dev/null 2>&1
"$BIN/wekactl" --config "$CONF" --uid 1000 --gids 1000 keys add ann "$DIR/ann" >/dev/null 2>&1
as() { "$BIN/wekactl" --connect "$TCP" --key "$DIR/$1" log; }
PLAIN='s/^[^ ]* weka-appliance: \([a-z]*\): \(.*\)/\1 \2/p'

check "start" start
ctl log >"$DIR/log"
is "it ends well" 0 $?
check "it has lines" [ "$(wc -l <"$DIR/log")" -ge 3 ]
sed 's/^[^ ]* \([a-z]*\) */\1 /' "$DIR/log" >"$DIR/log.plain"
sed -n "$PLAIN" "$DIR/daemon.log" | head -n "$(wc -l <"$DIR/log")" >"$DIR/daemon.plain"
check "they are those of the daemon" diff "$DIR/log.plain" "$DIR/daemon.plain"
check "with their time" grep -qE '^20[0-9-]*T[0-9:.]*Z info ' "$DIR/log"
ADDRESS=$TCP
check "over tcp, too" ctl log
ADDRESS=$SHM

# ---- a message with an id ----
printf '%064d\n' 1 >"$DIR/wrong" && chmod 600 "$DIR/wrong"
"$BIN/wekactl" --connect "$TCP" --key "$DIR/wrong" ls / 2>/dev/null
said WEKA-401
check "a refused client is there" sh -c "'$BIN/wekactl' -c '$SHM' -k '$DIR/key' log | grep -q 'warning WEKA-401: refused: tcp'"
ctl --json log >"$DIR/json"
is "and in JSON" "WEKA-401 warning" "$(python3 -c '
import json, sys
line = [l for l in map(json.loads, open(sys.argv[1])) if l.get("id") == "WEKA-401"][0]
print(line["id"], line["level"])' "$DIR/json")"
check "numbers grow by one" python3 -c '
import json, sys
numbers = [json.loads(line)["number"] for line in open(sys.argv[1])]
assert numbers == list(range(len(numbers))), numbers' "$DIR/json"

# ---- lines that come ----
"$BIN/wekactl" --connect "$SHM" --key "$DIR/key" --follow log >"$DIR/followed" &
FOLLOWS=$!
n=0
until grep -q WEKA-401 "$DIR/followed"; do n=$((n + 1)); [ $n -lt 1600 ] || break; sleep 0.05; done
"$BIN/wekactl" --config "$CONF" keys add later "$DIR/later" >/dev/null 2>&1
n=0
until grep -q "key later" "$DIR/followed"; do n=$((n + 1)); [ $n -lt 1600 ] || break; sleep 0.05; done
check "a line that comes later is printed" grep -q "info  *key later: may read" "$DIR/followed"
is "each once" "" "$(sort "$DIR/followed" | uniq -d)"
kill -TERM $FOLLOWS
wait $FOLLOWS
is "a signal ends it in order" 0 $?

# ---- who may ----
check "a key that reads everything may see it" as reader
refuses "one with a user may not" "permission denied" "$BIN/wekactl" --connect "$TCP" --key "$DIR/ann" log
check "stop" stop
finish
