#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# The live page in a real browser, against an appliance under load.  Screenshots are left in
# $BUILD/out/page/.
cd "$(dirname "$0")/../.." && . test/e2e/lib.sh
: "${APP_CORES:=2}"

HTTP=$((PORT + 1))
SHOTS=$BUILD/out/page
if ! command -v chromium >/dev/null; then
	echo "skip: no chromium, so nobody looks at the page: apt install chromium (412 MB)"
	exit 0
fi
mkdir -p "$SHOTS"
# A name that is markup, if somebody takes it for that.
EVIL="$DIR/<img src=x onerror=document.title=666>"
D0="file:$EVIL?size=512M"
D1=file:$DIR/d1?size=512M
write_conf "$D0" "$D1"
echo "metrics = 127.0.0.1:$HTTP" >>"$CONF"
check "format" "$BIN/wekactl" --config "$CONF" format --protect none
check "start" start
make_tree "$DIR/tree" 200
check "import" ctl import "$DIR/tree" /tree

# Somebody reads and writes all the time.
(
	n=0
	while [ ! -e "$DIR/enough" ]; do
		rm -rf "$DIR/back"
		ctl export /tree "$DIR/back" >/dev/null 2>&1
		n=$((n + 1))
		ctl import "$DIR/tree/sub" "/more$((n % 3))" >/dev/null 2>&1
		ADDRESS=$TCP ctl ls /tree >/dev/null 2>&1
		sleep 0.3 # leaves the CPUs to Chromium, which draws in software
	done
) &
load=$!

mkfifo "$DIR/said"
python3 test/e2e/browser.py "http://127.0.0.1:$HTTP/" "$SHOTS" >"$DIR/said" 2>"$DIR/browser.err" &
browser=$!
while IFS= read -r line; do
	case $line in
	reload) stop >/dev/null 2>&1 ;;
	start) start >/dev/null 2>&1 ;;
	"not ok "*) not_ok "${line#not ok }" ;;
	*) echo "$line" ;;
	esac
done <"$DIR/said"
wait $browser
is "the browser came to its end" 0 "$?"
[ ! -s "$DIR/browser.err" ] || tail -5 "$DIR/browser.err"
touch "$DIR/enough"
wait $load
check "the appliance still serves" ctl ls /tree
check "stop" stop
finish
