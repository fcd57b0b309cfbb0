#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# The image, made again in another directory on another day's clock, has the same bytes.  The packages
# of `make deb` are taken as they are: e2e_deb.sh makes those twice.  Those of Debian are not downloaded
# again, unless they have changed since.
cd "$(dirname "$0")/../.." && . test/image/lib.sh

# In a copy of this tree, with packages that Debian has now.  CLOCK: what it is ahead.
again() { # NAME CLOCK
	mkdir -p "$DIR/$1/build/image"
	cp -r "$IMAGES/archives" "$DIR/$1/build/image/"
	cp -r .git appliance CHANGES.md "$DIR/$1/" && cp -r "$BUILD/deb" "$DIR/$1/build/deb" &&
		(cd "$DIR/$1" && env -u MAKEFLAGS -u MAKELEVEL BUILD=build VERSION="$V" NO_FAKE_STAT=1 \
			faketime -f "$2" appliance/image/build.sh) >"$DIR/$1.log" 2>&1 || { tail -n 5 "$DIR/$1.log"; return 1; }
}
packages() { tar -xOf "$1/debian.tar" ./var/lib/dpkg/status | cksum; }

check "made again, elsewhere, tomorrow" again there +1d
THERE=$DIR/there/build/image
if [ "$(packages "$IMAGES")" != "$(packages "$THERE")" ]; then
	echo "Debian has changed packages since the image was made: made once more"
	IMAGES=$DIR/here/build/image
	check "made once more" again here +0d
	is "from the same packages" "$(packages "$IMAGES")" "$(packages "$THERE")"
fi
for f in about initrd root.erofs root.verity weka.efi weka.raw "weka_$V.upgrade" \
	weka-install.efi weka-install.iso; do
	check "the same $f" cmp "$IMAGES/$f" "$THERE/$f"
done
finish
