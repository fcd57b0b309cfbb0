#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# Read and write errors at chosen places (QEMU's blkdebug): -EIO for exactly the file that they hit.
#
# The store is made here, on file: drives that become the guest's, so it is known where a file lies
# that then cannot be read.  Where a put will write is not: so block 25 of every zone takes no
# writes.  Each start begins a new zone for data: a small file is before that block, a
# long one is not, and neither log (six blocks a put, five for start and stop) nor pages get so far.
cd "$(dirname "$0")/../.." && . test/guest/lib.sh

case ${TEST_LENGTH:-} in
short) echo "skip: errors of chosen blocks in a guest: in the longer tests"; exit ;;
esac
FILES=16 PUT_FAILS=16 READ_FAILS=12
ZONE_BLOCKS=32 FIRST_ZONE=129 # of drives of this size (FORMAT.md 2)
mkdir "$OUT/files"
for n in $(seq $FILES); do
	size=$((n * 1500 + 20000))
	[ $n != $PUT_FAILS ] || size=300000
	(head -c 4096 /dev/urandom; printf '<the second block of %s>' "$n"; head -c $size /dev/urandom) >"$OUT/files/$n"
done

# Where a file's second block lies: "DRIVE SECTOR".
place_of() { # NUMBER
	for d in 0 1; do
		at=$(LC_ALL=C grep -obUaF -m 1 "<the second block of $1>" "$DIR/d$d.img" | head -n 1 | cut -d: -f1)
		[ -z "$at" ] || { echo "$d $((at / 512))"; return; }
	done
}

H0=file:$DIR/d0.img?size=128M H1=file:$DIR/d1.img?size=192M
write_conf "$H0" "$H1"
check "format here" "$BIN/wekactl" format --protect none "$H0" "$H1"
check "start here" start
for n in $(seq $((FILES - 1))); do ctl put "$OUT/files/$n" "/$n" || not_ok "put $n here"; done
check "stop here" stop
read_at=$(place_of $READ_FAILS)
check "the place was found: $read_at" [ -n "$read_at" ]

# faulty N SIZE_MB OPTIONS: drive N, with its errors.
faulty() {
	rule() { printf '[inject-error]\nevent = "none"\niotype = "%s"\nerrno = "5"\nsector = "%s"\nonce = "off"\n' "$1" "$2"; }
	{
		zone=$FIRST_ZONE
		while [ $((zone + ZONE_BLOCKS)) -lt $(($2 * 256)) ]; do
			rule write $(((zone + 25) * 8))
			zone=$((zone + ZONE_BLOCKS))
		done
		[ "${read_at% *}" != "$1" ] || rule read "${read_at#* }"
	} >"$DIR/errors$1"
	QEMU_NVME="$QEMU_NVME -blockdev driver=blkdebug,node-name=d$1,config=$DIR/errors$1,image.driver=file,image.filename=$DIR/d$1.img"
	QEMU_NVME="$QEMU_NVME -device nvme,id=nvme-d$1,serial=d$1,addr=$((4 + $1)) -device nvme-ns,bus=nvme-d$1,drive=d$1,nsid=1$3"
}
faulty 0 128 ,logical_block_size=4096,physical_block_size=4096
faulty 1 192 ,logical_block_size=512
GUEST_EXPECT='aio failed: Input/output error'
GUEST_CONF="export DRIVES='pci:0000:00:04.0 pci:0000:00:05.0' FILES=$FILES PUT_FAILS=$PUT_FAILS READ_FAILS=$READ_FAILS"
boot fault.sh
finish
