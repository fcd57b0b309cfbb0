# SPDX-License-Identifier: BSD-2-Clause-Patent
# shellcheck shell=sh
# Changes files on $DRIVES until the power is cut; $WITNESSES clients note in $JOURNAL what they were
# answered.
. test/e2e/lib.sh

CACHE=16M write_conf $DRIVES
check "format" wekactl format --protect none $DRIVES
check "the appliance starts" start
[ $failures = 0 ] || finish
for w in $(seq 0 $((WITNESSES - 1))); do
	test/guest/witness run "$SHM" "$DIR/key" "$w" "$JOURNAL" &
done
touch /out/running
wait
not_ok "the witnesses go on until the power is cut"
finish
