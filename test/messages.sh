#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# Each warning and error of the log has an identifier that weka-messages(7) lists.
set -u
cd "$(dirname "$0")/.." || exit 2
: "${BUILD:=build}"
work=$BUILD/out/messages.d
rm -rf "$work" && mkdir -p "$work/sample"
command -v python3 >/dev/null || { echo "ok # not looked at here: no python3"; exit 0; }

# The sample has each mistake once.
cat >"$work/sample/bad.c" <<'SAMPLE'
	log_warn("WEKA-101: good");
	log_error("WEKA-101: the number of another one");
	log_warn("without one");
	log_error("%s", text);
	log_error("%s", line);
	log_warn(text);
	put(t, "WEKA-102: in no list");
SAMPLE
printf '.It WEKA-101\n.It WEKA-103 , WEKA-103\n' >"$work/page"
python3 test/messages.py "$work/page" "$work/sample" >"$work/out"
while read -r want; do
	if grep -qF "$want" "$work/out"; then
		echo "ok finds: ${want##*/}"
	else
		echo "not ok finds: ${want##*/}"
	fi
done <<WANT
$work/sample/bad.c:2: WEKA-101 is that of
$work/sample/bad.c:3: a line without an identifier: "without one"
$work/sample/bad.c:4: a line without an identifier: "%s"
$work/sample/bad.c:6: a line whose text is not there
$work/sample/bad.c:7: WEKA-102 is not in
$work/page: lists WEKA-103 twice
$work/page: nothing logs WEKA-103
WANT
[ "$(wc -l <"$work/out")" = 8 ] || { echo "not ok finds nothing else"; cat "$work/out"; }

if python3 test/messages.py appliance/host/weka-messages.7 appliance fabric client-lib nvme meta >"$work/out"; then
	echo "ok $(tail -n 1 "$work/out")"
else
	echo "not ok $(tail -n 1 "$work/out")"
	cat "$work/out"
	exit 1
fi
