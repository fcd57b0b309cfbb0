#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# Many clients connect at the same moment, over each transport, and all of them are let in; also
# while others wait for large pools.  How long it took is printed, and nobody's business.
cd "$(dirname "$0")/../.." && . test/e2e/lib.sh
: "${APP_CORES:=2}"
TOOLS=$(realpath "$BUILD/release/test/tools")
CLIENTS=60
[ "${TEST_LENGTH:-short}" = short ] || CLIENTS=200
TLS=tls://127.0.0.1:$((PORT + 1))

write_conf mem:256M
echo "listen = $TLS" >>"$CONF"
printf 'sessions_max = 512\npools_max = 8G\n' >>"$CONF"
check "the appliance starts" start

crowd() { # ADDRESS CLIENTS POOL_BYTES
	timeout 120 "$TOOLS/crowd_client" "$1" "$DIR/key" "$2" "$3" 60000
}
for address in "$TCP" "$SHM" "$TLS"; do
	check "$CLIENTS at once over ${address%%:*}" crowd "$address" $CLIENTS 2097152
	cat "$DIR/check.out"
done

# Five pools of 256 MiB are made while small clients come and go.
crowd "$SHM" 5 268435456 >"$DIR/large.out" 2>&1 &
LARGE=$!
check "20 at once beside five large pools" crowd "$SHM" 20 2097152
cat "$DIR/check.out"
wait $LARGE
is "the five get theirs" 0 $?
# One after the other, many times: one such visit once took 30.2 s (test/PROOF.md).  A visit above 2 s
# shows where both processes are.
visits_of() { # TRANSPORT: over shm the memory of each pool is made and cleared
	case ${TEST_LENGTH:-short}-$1 in
	short-shm) echo 40 ;;
	short-*) echo 300 ;;
	*) echo 7000 ;;
	esac
}
cat >"$DIR/where" <<-END
	for p in \$1 $DAEMON; do
		for t in /proc/\$p/task/*; do
			echo "\$p \$(cat \$t/comm \$t/wchan \$t/syscall \$t/stat 2>/dev/null | tr '\n' ' ')"
		done
		gdb -batch -ex 'thread apply all backtrace' -p \$p 2>/dev/null | grep '^[#T]'
	done
	ss -tnp 2>/dev/null | grep "$PORT\|$((PORT + 1))"
	tail -n 20 "$DIR/daemon.log"
END
for address in "$TCP" "$SHM" "$TLS"; do
	VISITS=$(visits_of "${address%%:*}")
	check "$VISITS visits, one after the other, over ${address%%:*}" \
		"$TOOLS/visit_client" "$address" "$DIR/key" $VISITS 2000 "$(cat "$DIR/where")"
	cat "$DIR/check.out"
done
check "the appliance stops" stop
finish
