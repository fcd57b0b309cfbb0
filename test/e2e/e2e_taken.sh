#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# Clients have taken all sessions and all memory for pools: an operator's status works all the same.
cd "$(dirname "$0")/../.." && . test/e2e/lib.sh
: "${APP_CORES:=2}"

write_conf mem:256M
printf 'sessions_max = 4\npools_max = 16M\nsession_pools_max = 4M\n' >>"$CONF"
check "the appliance starts" start
PYTHONPATH=$(realpath "$BUILD/release/python")
export PYTHONPATH
cat >"$DIR/hold.py" <<'END'
import sys, time, weka
clients, tries = [], 0
while len(clients) < 100:
    try:
        clients.append(weka.Client(sys.argv[1], key_file=sys.argv[2], pool_bytes=4 << 20))
    except OSError as e:
        # The session of the last command before us may not have ended yet.
        tries += 1
        if len(clients) < 4 and tries < 600:
            time.sleep(0.1)
            continue
        print(len(clients), e, flush=True)
        break
sys.stdin.read()
END
mkfifo "$DIR/pipe"
python3 "$DIR/hold.py" "$SHM" "$DIR/key" <"$DIR/pipe" >"$DIR/held" 2>&1 &
holder=$!
exec 9>"$DIR/pipe"
n=0
until [ -s "$DIR/held" ] || [ $n -gt 600 ]; do
	n=$((n + 1))
	sleep 0.1
done
is "clients take all sessions, and the next one is told so" 1 "$(grep -c '^4 .*as many sessions as it may' "$DIR/held")"
# A command's session may end a moment after the command.
five() { ctl --json status >"$DIR/status" && grep -q '"sessions_open":5,' "$DIR/status"; }
for address in "$SHM" "$TCP"; do
	ADDRESS=$address
	check "status over ${address%%:*}" eventually ctl status
	check "its JSON, of these and its own" eventually five
	refuses "names over ${address%%:*} wait for a session" "as many sessions as it may" \
		"$BIN/wekactl" --connect "$address" --key "$DIR/key" ls /
done
ADDRESS=$SHM
exec 9>&-
check "the clients end" wait $holder
check "and others are served" eventually ctl ls /
check "the appliance stops" stop
finish
