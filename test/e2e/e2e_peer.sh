#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# A client that was written from PROTOCOL.md alone, in another language, talks to the appliance;
# and what both said is read by Wireshark with fabric/weka.lua.
cd "$(dirname "$0")/../.." && . test/e2e/lib.sh
: "${APP_CORES:=1}"

D0=file:$DIR/d0?size=256M
RECORDED=$((PORT + 1))
write_conf "$D0"
"$BIN/wekactl" format "$D0" >/dev/null || exit 1
check "the appliance starts" start
python3 test/peer/second_client.py 127.0.0.1 "$PORT" "$DIR/key" || failures=$((failures + 1))

vectors_same() { python3 test/peer/epoch_order.py | cmp - test/golden/order_vectors.txt; }
check "the order of an epoch is the protocol's" vectors_same
weights_same() { python3 test/peer/epoch_order.py weights | cmp - test/golden/weight_vectors.txt; }
check "samples drawn by weight are the protocol's" weights_same

# ---- the same once more, with a capture in between ---------------------------------------------

python3 test/peer/record.py "$RECORDED" "$PORT" "$DIR/capture.pcap" &
RECORDER=$!
until python3 -c "import socket; socket.create_connection(('127.0.0.1', $RECORDED))" 2>/dev/null || ! kill -0 "$RECORDER"; do sleep 0.1; done
check "again through the recorder" python3 test/peer/second_client.py 127.0.0.1 "$RECORDED" "$DIR/key"
kill "$RECORDER"

# shark FILTER [FIELD...]: a line for each frame that matches.
shark() {
	filter=$1
	shift
	for field in "$@"; do set -- "$@" -e "$field"; shift; done
	tshark -n -X lua_script:fabric/weka.lua -r "${CAPTURE:-$DIR/capture.pcap}" -Y "$filter" ${1:+-T fields} "$@" \
		2>"$DIR/shark.err" || cat "$DIR/shark.err"
	grep -v '^Running as user' "$DIR/shark.err" # Lua's complaints go there, exit status 0 or not
}
count() { shark "$1" "$2" | tr ',' '\n' | grep -c "${3:-.}"; }
same() { [ "$1" = "$2" ] || { echo "$1, not $2"; return 1; }; }

check "every byte belongs to a capsule, and every checksum is right" same "$(count 'weka.check.bad || weka.bad || _ws.malformed' frame.number)" 0
check "nothing is left over as plain TCP" same "$(count 'tcp.payload && !weka && !tcp.segment_data' frame.number)" 0
requests=$(count 'weka.type >= 16' weka.type '^\(1[6-9]\|[2-9].\)$')
check "each request has its reply" same "$(count 'weka.type == 12' weka.type '^12$')" "$requests"
check "and each reply points back to one" same "$(count 'weka.type == 12' weka.request_in)" "$requests"
check "there were some" test "$requests" -ge 18
check "names can be looked for" same "$(count 'weka.type == 31 && weka.name == "/peer"' frame.number)" 2
check "a state stands before a name" same "$(count 'weka.state && weka.name == "/peer/4097"' frame.number)" 1
check "and errors" same "$(shark 'weka.status == -74' _ws.col.Info)" "REPLY to WRITE: EBADMSG"
check "a wrong key is seen" same "$(count 'weka.status == -13' weka.text)" 3
check "and that a lane joins its session" same "$(shark 'weka.lane == 1' weka.session | sort -u)" "$(shark 'weka.type == 4' weka.session | sort | uniq -d)"
check "payload is told from capsules" test "$(count 'weka.type == 8' weka.payload)" -ge 3

# One bit of a header flipped: the dissector must notice (of the first HELLO's checksum).
python3 - "$DIR/capture.pcap" "$DIR/flipped.pcap" <<'PY'
import sys
data = bytearray(open(sys.argv[1], "rb").read())
at = data.index(b"WKF1")
data[at + 60] ^= 1
open(sys.argv[2], "wb").write(data)
PY
CAPTURE=$DIR/flipped.pcap
check "a flipped bit is an error" test "$(count 'weka.check.bad' frame.number)" -ge 1

# The first REPLY (a PING's) as an appliance with too much to do would have sent it.
python3 - "$DIR/capture.pcap" "$DIR/busy.pcap" <<'PY'
import struct, sys
data = bytearray(open(sys.argv[1], "rb").read())
at = data.index(b"WKF1\x01\x0c")
struct.pack_into("<i", data, at + 16, -16)
struct.pack_into("<I", data, at + 24, 250)
open(sys.argv[2], "wb").write(data)
PY
CAPTURE=$DIR/busy.pcap
check "a reply that says when to ask again" same "$(shark 'weka.retry_ms == 250' weka.status weka.retry_ms | tr '\t' ' ')" "-16 250"
CAPTURE=$DIR/capture.pcap
check "others say nothing of the kind" same "$(count 'weka.retry_ms' frame.number)" 0

check "stop" stop
check "check finds nothing wrong" "$BIN/wekactl" check "$D0"
finish
