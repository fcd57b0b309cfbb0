#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# A client that was written from PROTOCOL.md alone, in another language, talks to the appliance.
cd "$(dirname "$0")/../.." && . test/e2e/lib.sh

D0=file:$DIR/d0?size=256M
write_conf "$D0"
"$BIN/wekactl" format "$D0" >/dev/null || exit 1
check "the appliance starts" start
python3 test/peer/second_client.py 127.0.0.1 "$PORT" "$DIR/key" || failures=$((failures + 1))
check "stop" stop
check "check finds nothing wrong" "$BIN/wekactl" check "$D0"
finish
