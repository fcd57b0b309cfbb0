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

finish
