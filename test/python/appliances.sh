# SPDX-License-Identifier: BSD-2-Clause-Patent
# shellcheck shell=sh
# Two appliances for the tests of the Python package, and pytest's result as lines of a script.
# After test/e2e/lib.sh.
: "${APP_CORES:=1}" "${PYTHON:=/usr/bin/python3}"

for module in pytest numpy; do
	"$PYTHON" -c "import $module" 2>/dev/null || { echo "skip: no $module for $PYTHON"; exit 0; }
done

OTHER=
stop_other() { [ -z "$OTHER" ] || kill -9 "$OTHER" 2>/dev/null; }
trap 'stop_other; cleanup' EXIT

# The one with TLS: the same key, another store.
write_conf "file:$DIR/d1?size=256M"
sed "s|^listen = shm:.*|listen = shm:$DIR/other.sock|; s|:$PORT\$|:$((PORT + 1))|" "$CONF" >"$DIR/other.conf"
echo "tls = required" >>"$DIR/other.conf"
"$BIN/wekactl" --config "$DIR/other.conf" format >/dev/null || exit 1
"$BIN/weka-appliance" --config "$DIR/other.conf" >>"$DIR/other.log" 2>&1 &
OTHER=$!
other_serves() { # within 75 s, as start() of lib.sh
	n=0
	until "$BIN/wekactl" --config "$DIR/other.conf" status >/dev/null 2>&1; do
		n=$((n + 1))
		if ! kill -0 "$OTHER" 2>/dev/null || [ $n -gt 1500 ]; then
			tail -5 "$DIR/other.log"
			return 1
		fi
		sleep 0.05
	done
}

write_conf "file:$DIR/d0?size=512M"
echo "open_puts_max = 16" >>"$CONF" # test_edges.py
"$BIN/wekactl" --config "$CONF" format >/dev/null || exit 1
check "the appliance starts" start
check "the one with TLS serves" other_serves

export WEKA_TEST_KEY="$DIR/key" WEKA_TEST_SHM="$SHM" WEKA_TEST_TCP="$TCP" WEKA_TEST_TLS="tls://127.0.0.1:$((PORT + 1))"
export WEKA_TEST_DAEMON="$DAEMON" WEKA_TEST_BIN="$BIN" PYTHONDONTWRITEBYTECODE=1

# FILE...: "ok" and "not ok" lines of its tests, as they come; a pytest that dies is one failure.  If a test
# takes two minutes, the stacks of all threads are printed.
pytest_lines() {
	{
		LD_PRELOAD=${PRELOAD:-} "$PYTHON" -m pytest -q -s --no-header --no-summary -p no:cacheprovider \
			-o faulthandler_timeout=120 "${@:-test/python}" 2>&1
		echo $? >"$DIR/pytest.code"
	} | tee "$DIR/pytest.out" | grep --line-buffered -aE '^(ok|skip:) |^Timeout|^Thread |^  File '
	code=$(cat "$DIR/pytest.code")
	[ "$code" = 0 ] || { not_ok "pytest: exit status $code"; grep -av '^ok ' "$DIR/pytest.out"; }
}
