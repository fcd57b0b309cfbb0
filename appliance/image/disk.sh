#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# Makes the disk $OUT/weka.raw; build.sh calls it.
#
#   sector 2048     ESP    boot loader, EFI/Linux/weka_VERSION+3.efi: three tries
#                   root A, hashes A, root B, hashes B (empty)
#                   state  /var; the first boot makes it as large as the disk
set -eu
. "$OUT/root.env"
LOADER=/usr/lib/systemd/boot/efi

efi=$OUT/weka.efi

# ---- the ESP ---------------------------------------------------------------------------------------------
esp=$OUT/esp
rm -rf "$esp" "$esp.tree"
mkdir -p "$esp.tree/EFI/BOOT" "$esp.tree/EFI/Linux" "$esp.tree/loader"
cp "$LOADER/systemd-bootx64.efi" "$esp.tree/EFI/BOOT/BOOTX64.EFI"
cp "$efi" "$esp.tree/EFI/Linux/weka_$VERSION+3.efi"
printf 'timeout 0\neditor no\n' >"$esp.tree/loader/loader.conf"
find "$esp.tree" -exec touch -d "@$SOURCE_DATE_EPOCH" {} +
truncate -s ${ESP}M "$esp"
mkfs.vfat -F 32 -n WEKA-ESP --invariant "$esp" >/dev/null
for d in ::EFI ::EFI/BOOT ::EFI/Linux ::loader; do mmd -i "$esp" $d; done
for f in EFI/BOOT/BOOTX64.EFI "EFI/Linux/weka_$VERSION+3.efi" loader/loader.conf; do
	mcopy -m -i "$esp" "$esp.tree/$f" "::$f"
done

# ---- the state, empty --------------------------------------------------------------------------------------
state=$OUT/state
rm -f "$state"
truncate -s ${STATE}M "$state"
E2FSPROGS_FAKE_TIME=$SOURCE_DATE_EPOCH mke2fs -q -t ext4 -L weka-state -m 1 -U 5f3a4c5e-6d1f-4e0b-9f3d-77656b610001 \
	-E hash_seed=5f3a4c5e-6d1f-4e0b-9f3d-77656b610002,lazy_itable_init=0,root_owner=0:0 "$state"

# ---- the disk ----------------------------------------------------------------------------------------------
uuid() { echo "$1" | sed 's/\(........\)\(....\)\(....\)\(....\)\(............\)/\1-\2-\3-\4-\5/'; }
ROOT_TYPE=4f68bce3-e8cd-4db1-96e7-fbcaf984b709 HASH_TYPE=2c7357ed-ebd2-46d9-aec1-23d437ec2bf5 # of x86-64
raw=$OUT/weka.raw
rm -f "$raw"
truncate -s $((1 + ESP + 2 * (ROOT + HASHES) + STATE + 1))M "$raw"
sfdisk -q "$raw" <<END
label: gpt
label-id: 5f3a4c5e-6d1f-4e0b-9f3d-77656b610000
start=1MiB, size=${ESP}MiB, type=uefi, name=weka-esp, uuid=5f3a4c5e-6d1f-4e0b-9f3d-77656b610003
size=${ROOT}MiB, type=$ROOT_TYPE, name=weka-root-a, uuid=$(uuid "$(echo "$hash" | cut -c 1-32)")
size=${HASHES}MiB, type=$HASH_TYPE, name=weka-hash-a, uuid=$(uuid "$(echo "$hash" | cut -c 33-64)")
size=${ROOT}MiB, type=$ROOT_TYPE, name=weka-root-b, uuid=5f3a4c5e-6d1f-4e0b-9f3d-77656b610004
size=${HASHES}MiB, type=$HASH_TYPE, name=weka-hash-b, uuid=5f3a4c5e-6d1f-4e0b-9f3d-77656b610005
size=${STATE}MiB, type=linux, name=weka-state, uuid=5f3a4c5e-6d1f-4e0b-9f3d-77656b610006
END
put() { dd if="$1" of="$raw" bs=1M seek="$2" conv=notrunc,sparse status=none; }
put "$esp" 1
put "$OUT/root.erofs" $((1 + ESP))
put "$OUT/root.verity" $((1 + ESP + ROOT))
put "$state" $((1 + ESP + 2 * (ROOT + HASHES)))
rm -rf "$esp" "$esp.tree" "$state"
