#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# The daemon as a service: its log, its unit, its start and reload, the first key.
cd "$(dirname "$0")/../.." && . test/e2e/lib.sh
: "${APP_CORES:=1}"

CTL=$BIN/wekactl
APP=$BIN/weka-appliance
D0=file:$DIR/d0?size=128M
write_conf "$D0"
check "format" "$CTL" format "$D0"

# ---- the log ---------------------------------------------------------------------------------
bad_lines() { grep -Evc "$1" "$DIR/daemon.log"; }
check "start" start
check "stop" stop
is "the log has the time in UTC before each line" 0 \
	"$(bad_lines '^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}\.[0-9]{3}Z weka-appliance: (info|warning|error): ')"
: >"$DIR/daemon.log"
JOURNAL_STREAM=$(stat -c %d:%i "$DIR/daemon.log")
export JOURNAL_STREAM
check "start with the journal on stderr" start
check "stop" stop
unset JOURNAL_STREAM
is "the journal gets a priority before each line" 0 "$(bad_lines '^<[346]>[A-Za-z]')"

# ---- an address that comes later --------------------------------------------------------------
# As at boot, when the daemon is started before the network has its addresses: in a network
# namespace of its own, where this script gives loopback another address.
ADDR=fd00:77::1
cp "$CONF" "$DIR/conf.saved"
echo "listen = tcp://[$ADDR]:$PORT" >>"$CONF"
if unshare -n true 2>/dev/null && command -v ip >/dev/null; then
	RUN_AS="unshare -n"
	: >"$DIR/daemon.log"
	check "start before an address is there" start
	RUN_AS=
	check "which the log says, with what is done about it" \
		grep -q "warning: listen = .*$ADDR.*: Cannot assign requested address; trying again every second" "$DIR/daemon.log"
	check "clients of the other addresses are served" ctl ls /
	nsenter -t "$DAEMON" -n sh -c "ip link set lo up && ip addr add $ADDR/128 dev lo nodad"
	check "it is served once it is there" said "serving tcp://\[$ADDR\]:$PORT"
	check "to clients" nsenter -t "$DAEMON" -n "$CTL" -c "tcp://[$ADDR]:$PORT" -k "$DIR/key" ls /
	check "stop" stop
	is "with one line for each" 2 "$(grep -c "$ADDR" "$DIR/daemon.log")"
else
	echo "no network namespace here: addresses that come later are not tried"
fi
cp "$DIR/conf.saved" "$CONF"

# ---- reload ------------------------------------------------------------------------------------
: >"$DIR/daemon.log"
check "start" start
{ sed "s|^cache.*|cache = 32M|; s|^listen = tcp.*|listen = tcp://127.0.0.1:$((PORT + 1))|" "$DIR/conf.saved"; } >"$CONF"
kill -HUP "$DAEMON"
check "a reload says that it was done" said "info: .*weka.conf was read again"
check "it serves an address that is new" "$CTL" -c "tcp://127.0.0.1:$((PORT + 1))" -k "$DIR/key" ls /
check "and one that is gone, until the next start" "$CTL" -c "$TCP" -k "$DIR/key" ls /
check "which the log says" grep -q "warning: listen = $TCP is no longer configured" "$DIR/daemon.log"
check "a key that needs a start is named" grep -q "warning: .*weka.conf:[0-9]*: cache: has changed; that takes effect at the next start" "$DIR/daemon.log"
is "and no other" 2 "$(grep -c ' warning: ' "$DIR/daemon.log")"
echo "cahce = 1M" >>"$CONF"
kill -HUP "$DAEMON"
check "a mistake is named" said "error: .*weka.conf:[0-9]*: cahce: no such key"
check "and changes nothing" ctl ls /
cp "$DIR/conf.saved" "$CONF"
check "stop" stop

finish
