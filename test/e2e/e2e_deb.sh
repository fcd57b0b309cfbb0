#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# The Debian packages: what is in them, and, in the longer runs, their life on a clean Debian 12 with
# its own systemd: installed, upgraded under load, removed, purged (deb_guest.sh).
cd "$(dirname "$0")/../.." && . test/e2e/lib.sh

DEBS=$(realpath -m "$BUILD/deb")
PACKAGES="libweka-client-dev libweka-client0 python3-weka weka-appliance weka-bench weka-mount wekactl"
alone() { env -u MAKEFLAGS -u MAKELEVEL make -s BUILD="$BUILD" "$@"; }
deb() { echo "$DEBS/$1"_[0-9]*.deb; }

if ! command -v dpkg-deb >/dev/null; then
	echo "skip: no dpkg here, so there are no packages"
	exit 0
fi

# ---- their content ---------------------------------------------------------------------------
check "make deb" alone deb
is "it makes these packages, and where to find their symbols" "$PACKAGES" \
	"$(ls "$DEBS" | sed -n 's/_.*\.deb$//p' | grep -v dbgsym | LC_ALL=C sort | xargs)"
is "the version is the programs' own" "$("$BIN/weka-appliance" --version | grep -oE '[0-9]+\.[0-9.]+' | head -n 1)-1" \
	"$(dpkg-deb -f "$(deb weka-appliance)" Version)"
for p in $PACKAGES; do dpkg-deb -x "$(deb "$p")" "$DIR/root"; done
# The packages have all files of make install, each file once.
for p in $PACKAGES; do dpkg-deb -c "$(deb "$p")" | awk '!/^d/ { print $6 }'; done | sort | uniq -d >"$DIR/twice"
is "no file is in two packages" "" "$(cat "$DIR/twice")"
is "each program is the one of this build" "$("$BIN/wekactl" --version)" "$("$DIR/root/usr/bin/wekactl" --version)"
LIBS=$(dirname "$DIR"/root/usr/lib/*/libweka-client.so)
check "a program is built with the development files" cc -o "$DIR/hello" -I"$DIR/root/usr/include" \
	"$DIR/root/usr/share/doc/libweka-client-dev/examples/hello.c" -L"$LIBS" -lweka-client
check "pkg-config's file names their places" grep -qx "libdir=${LIBS#"$DIR/root"}" "$LIBS/pkgconfig/weka-client.pc"
is "no name of this directory is in them" "" "$(grep -rlF "$PWD/" "$DIR/root" | sed "s|$DIR/root||")"
check "bash's completion is where it is looked for" grep -q _wekactl "$DIR/root/usr/share/bash-completion/completions/wekactl"
check "manual pages name the packages' files" sh -c "zcat $DIR/root/usr/share/man/man8/weka-appliance.8.gz | grep -q ' /usr/share/weka/'"

[ "${TEST_LENGTH:-long}" != short ] || finish
# The packages are not uploaded to Debian, so no bug of Debian's asks for them.
lintian --suppress-tags initial-upload-closes-no-bugs --allow-root "$DEBS"/*.changes >"$DIR/lintian" 2>&1
is "lintian ends well" 0 $?
is "and finds nothing" "" "$(grep -v '^running with root' "$DIR/lintian")"

# ---- their life --------------------------------------------------------------------------------
if git diff --quiet HEAD 2>/dev/null; then
	git clone -q . "$DIR/elsewhere"
	check "a build in another directory" sh -c "cd '$DIR/elsewhere' && env -u MAKEFLAGS -u MAKELEVEL make -s BUILD=build deb"
	check "gives the same packages" sh -c "cd '$DIR/elsewhere/build/deb' &&
		for deb in *.deb; do cmp \$deb '$DEBS'/\$deb || exit 1; done"
	rm -rf "$DIR/elsewhere"
else
	echo "not all is committed: the packages are not built a second time"
fi
if [ "$(id -u)" != 0 ]; then
	echo "not root: the packages are not installed anywhere"
	finish
fi
echo "mmdebstrap systemd-container" >"$DIR/tools"
check "tools for a root of Debian's" .ci/deps.sh "$DIR/tools"
ROOT=$DEBS/root.tar
[ -s "$ROOT" ] || check "a clean root" mmdebstrap --variant=apt --include=dbus,systemd-sysv --skip=cleanup/apt/lists \
	bookworm "$ROOT"
mkdir -p "$DIR/life/debs/old" "$DEBS/archives/partial"
tar -C "$DIR/life" -xf "$ROOT"
for p in $PACKAGES; do
	cp "$(deb "$p")" "$DIR/life/debs/"
	# The same package with an older number.
	dpkg-deb -R "$(deb "$p")" "$DIR/old"
	sed -i "s/\(= \|^Version: \)$(dpkg-deb -f "$(deb "$p")" Version)/\10.0.9-1/" "$DIR/old/DEBIAN/control"
	dpkg-deb --root-owner-group -b "$DIR/old" "$DIR/life/debs/old/$p.deb" >/dev/null
	rm -r "$DIR/old"
done
mkdir -p "$DIR/life/test/e2e"
cp test/e2e/lib.sh test/e2e/deb_guest.sh test/e2e/deb_hammer.py "$DIR/life/test/e2e/"
cat >"$DIR/life/etc/systemd/system/life.service" <<END
[Unit]
After=multi-user.target
[Service]
Type=oneshot
StandardOutput=file:/log
StandardError=file:/log
ExecStart=/test/e2e/deb_guest.sh
ExecStopPost=/bin/systemctl --no-block poweroff
END
mkdir -p "$DIR/life/etc/systemd/system/multi-user.target.wants"
ln -s ../life.service "$DIR/life/etc/systemd/system/multi-user.target.wants/life.service"
if ! systemd-nspawn -q --register=no --keep-unit -D "$DIR/life" true >"$DIR/nspawn" 2>&1; then
	echo "no container can be started here: $(tail -n 1 "$DIR/nspawn")"
	finish
fi
FUSE=$([ ! -c /dev/fuse ] || echo --bind=/dev/fuse)
timeout 300 systemd-nspawn -q --register=no --keep-unit $FUSE --bind="$DEBS/archives:/var/cache/apt/archives" \
	-D "$DIR/life" -b >"$DIR/nspawn" 2>&1 </dev/null
cat "$DIR/life/log"
failures=$((failures + $(grep -c '^not ok ' "$DIR/life/log")))
check "the machine comes to its end" grep -q '^ok the last' "$DIR/life/log"
[ $failures = 0 ] || tail -n 40 "$DIR/nspawn"
finish
