#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# Makes what every guest boots from: $GUEST_CACHE/vmlinux and base.cpio, from Debian's stock kernel
# package and busybox.  Once; again when this file or init changes.  usage: image.sh
#
#   linux-image-*.deb --(apt-get download)--> vmlinuz --(its payload, unpacked)--> vmlinux
#                                         \-> modules --+
#                       busybox, shipped tools, init ---+--> base.cpio, not compressed: without
#                                                            KVM a guest unpacks slowly
set -eu
cd "$(dirname "$0")/../.."
: "${BUILD:=build}"
: "${GUEST_CACHE:=$BUILD/guest}"
MODULES="virtio_pci 9p 9pnet_virtio vfio_iommu_type1 vfio-pci nvme ext4 crc32c_generic virtio_blk
	virtio_net crc32_generic rdma_rxe ib_uverbs rdma_ucm"
# The host's, where busybox has none or a lesser one; payloads run in dash, since busybox's own shell
# would not look for them.
TOOLS="dash find xargs setpriv prlimit sha256sum rdma"
# Libraries that are loaded at run time, so that libs.sh does not find them: verbs, and the driver of
# soft-RoCE.
LIBRARIES="libibverbs.so.1 librdmacm.so.1 libibverbs/librxe-rdmav34.so"

die() { echo "guest: $*" >&2; exit 1; }

[ "$(uname -m)" = x86_64 ] || die "the guest is x86-64 and runs this machine's programs: not on $(uname -m)"
mkdir -p "$GUEST_CACHE"
GUEST_CACHE=$(realpath "$GUEST_CACHE")
exec 9>"$GUEST_CACHE/lock"
flock 9 # several builds may share one cache

stamp=$(cat test/guest/image.sh test/guest/init test/guest/libs.sh | cksum)
[ "$stamp" = "$(cat "$GUEST_CACHE/stamp" 2>/dev/null)" ] && exit 0

for tool in qemu-system-x86_64 busybox cpio xz dpkg-deb; do
	command -v $tool >/dev/null || die "no $tool here: type  make deps"
done

# ---- the kernel ------------------------------------------------------------------------------

# The lists of packages may be missing or old; asking for them needs root.
download() {
	name=$(apt-cache depends linux-image-amd64 2>/dev/null |
		sed -n 's/.*Depends: *\(linux-image-[0-9][^ ]*\)$/\1/p' | head -n 1)
	[ -n "$name" ] && (cd "$GUEST_CACHE" &&
		apt-get -o APT::Sandbox::User="$(id -un)" -qq download "$name")
}

kernel_deb() {
	deb=$(ls -t "$GUEST_CACHE"/linux-image-[0-9]*.deb 2>/dev/null | head -n 1)
	[ -z "$deb" ] || return 0
	echo "guest: downloading Debian's kernel (70 MB), once"
	tries=0
	until download || { apt-get -qq update && download; }; do
		tries=$((tries + 1))
		[ $tries -lt 4 ] ||
			die "Debian's kernel cannot be downloaded: put a linux-image-6.1.*-amd64_*.deb of Debian 12" \
				"into $GUEST_CACHE, or copy the whole directory from a machine where it is made"
		sleep 15 # a mirror, or the lock of another apt
	done
	deb=$(ls "$GUEST_CACHE"/linux-image-[0-9]*.deb)
}

# number FILE OFFSET BYTES: a little-endian number of the boot header (Documentation/x86/boot).
number() { od -An -tu"$3" -j"$2" -N"$3" "$1" | tr -d ' '; }

unpack_kernel() { # bzImage -> vmlinux: a guest boots it 2 s sooner
	image=$(ls "$work"/root/boot/vmlinuz-*)
	setup_sectors=$(number "$image" 497 1)
	payload=$(((setup_sectors + 1) * 512 + $(number "$image" 584 4)))
	length=$(number "$image" 588 4)
	tail -c +$((payload + 1)) "$image" | head -c "$length" >"$work/payload"
	case $(od -An -tx1 -N4 "$work/payload" | tr -d ' ') in
	fd377a58) xz -dc --single-stream <"$work/payload" >"$work/vmlinux" ;;
	28b52ffd) zstd -dcq <"$work/payload" >"$work/vmlinux" || true ;; # four bytes of size follow
	*) die "$image: compressed in a way that this does not know" ;;
	esac
	[ "$(od -An -tx1 -N4 "$work/vmlinux" | tr -d ' ')" = 7f454c46 ] || die "$image: no kernel in it"
}

# ---- the root file system ---------------------------------------------------------------------

modules() { # copies MODULES and all they need
	version=$(ls "$work/root/lib/modules")
	tree=$work/root/lib/modules/$version
	find "$tree" -name '*.ko.xz' -exec xz -d {} +
	busybox depmod -b "$work/root" "$version"
	mkdir -p "$r/lib/modules/$version"
	for m in $MODULES; do
		grep "/$(echo "$m" | tr _- '??' | sed 's/?/[_-]/g')\.ko:" "$tree/modules.dep" | tr -d : || die "no module $m in $deb"
	done | tr ' ' '\n' | sort -u | (cd "$tree" && cpio -pdm --quiet "$r/lib/modules/$version")
	cp "$tree"/modules.builtin "$tree"/modules.order "$r/lib/modules/$version/"
	busybox depmod -b "$r" "$version"
}

root_tree() {
	r=$work/r
	mkdir -p "$r/bin" "$r/dev" "$r/etc" "$r/proc" "$r/sys" "$r/tmp" "$r/run" "$r/out" "$r/root"
	cp "$(command -v busybox)" "$r/bin/busybox"
	for applet in $(busybox --list); do
		case $applet in busybox | sh) ;; *) ln -s busybox "$r/bin/$applet" ;; esac
	done
	for tool in $TOOLS; do
		rm -f "$r/bin/$tool"
		cp "$(command -v $tool)" "$r/bin/$tool"
	done
	ln -s dash "$r/bin/sh"
	at=$(dirname "$(ldconfig -p | sed -n 's/.*libibverbs\.so\.1 .*=> //p' | head -n 1)")
	for lib in $LIBRARIES; do
		to=$r/lib/x86_64-linux-gnu/$lib
		mkdir -p "${to%/*}"
		cp -L "$at/$lib" "$to"
		chmod +x "$to" # as a program, for libs.sh
	done
	mkdir -p "$r/usr/lib" "$r/etc/libibverbs.d"
	ln -s ../../lib/x86_64-linux-gnu "$r/usr/lib/x86_64-linux-gnu" # where libibverbs looks for drivers
	echo "driver rxe" >"$r/etc/libibverbs.d/rxe.driver"
	test/guest/libs.sh "$r"
	cp test/guest/init "$r/init"
	chmod 755 "$r/init"
	printf 'root:x:0:0:root:/root:/bin/sh\nweka:x:1000:1000:weka:/tmp:/bin/sh\n' >"$r/etc/passwd"
	printf 'root:x:0:\nweka:x:1000:\n' >"$r/etc/group"
	modules
}

work=$(mktemp -d "$GUEST_CACHE/work.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
kernel_deb
mkdir "$work/root"
dpkg-deb -x "$deb" "$work/root"
unpack_kernel
root_tree
(cd "$r" && find . | cpio -o -H newc -R 0:0 --quiet) >"$work/base.cpio"
mv "$work/vmlinux" "$work/base.cpio" "$GUEST_CACHE/"
echo "$stamp" >"$GUEST_CACHE/stamp"
