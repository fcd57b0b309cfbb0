# SPDX-License-Identifier: BSD-2-Clause-Patent
# shellcheck shell=sh
# The end-to-end test on $DRIVES over rdma://: import, epochs with every byte compared, export.
. test/e2e/lib.sh

HOST=10.0.0.1
RDMA=rdma://$HOST:7010
ip link set lo up
ip addr add $HOST/24 dev eth0
ip link set eth0 up
rdma link add rxe0 type rxe netdev eth0

write_conf $DRIVES
echo "listen = $RDMA" >>"$CONF"
check "format" wekactl --force format $DRIVES
check "the appliance starts" start
ADDRESS=$RDMA
check "status over rdma" ctl status
check "import takes the tree" ctl -q import /out/src /tree
check "two epochs of random batches: every byte compared" \
	weka-bench epoch --connect "$ADDRESS" --key "$DIR/key" --tree /out/src --prefix /tree --epochs 2 --verify
cat "$DIR/check.out"
check "export" ctl -q export /tree "$DIR/exported"
describe "$DIR/exported" >/out/tree.exported
check "what came out is what went in" cmp /out/tree.src /out/tree.exported
check "status over rdma" ctl status
cat "$DIR/check.out"
check "SIGTERM stops it cleanly" stop
[ $failures = 0 ] || tail -n 20 "$DIR/daemon.log"
finish
