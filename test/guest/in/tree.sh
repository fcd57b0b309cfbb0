# SPDX-License-Identifier: BSD-2-Clause-Patent
# shellcheck shell=sh
# The end-to-end test on $DRIVES: format, import of the host's tree /out/src, epochs with every byte
# compared, restart, export compared, check.  USER=weka: the appliance runs as that ordinary user,
# with just the locked memory that it asks for.
. test/e2e/lib.sh

write_conf $DRIVES

check "format" wekactl format $DRIVES
check "the appliance starts" start
check "import takes the tree" ctl -q import /out/src /tree
check "two epochs of random batches: every byte compared" \
	weka-bench epoch --connect "$SHM" --key "$DIR/key" --tree /out/src --prefix /tree --epochs 2 --verify
check "SIGTERM stops it cleanly" stop
check "check finds nothing wrong" wekactl check $DRIVES
check "it starts again" start
check "export after the restart" ctl -q export /tree "$DIR/exported"
describe "$DIR/exported" >/out/tree.exported
check "what came out is what went in" cmp /out/tree.src /out/tree.exported
check "stop" stop
finish
