#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# Every command in docs/*.md is run, in the order of its page, and prints what the page shows
# (docs.py).  The programs are those that make install installs.  The paths /etc/weka...,
# /var/lib/weka and /run/weka of the pages lie in a directory of the test; sudo, install -o, systemctl and journalctl are
# functions below, since a test may be an ordinary user and has no systemd.
cd "$(dirname "$0")/../.." && . test/e2e/lib.sh

HERE=$PWD
stop_all() {
	for pid in "$DIR"/*/pid; do
		[ ! -s "$pid" ] || kill -9 "$(cat "$pid")" 2>/dev/null
	done
	cleanup
}
trap stop_all EXIT
MAKEFLAGS='' make -s install BUILD="$BUILD" DESTDIR="$DIR/inst" PREFIX=/usr >"$DIR/install.out" 2>&1 ||
	not_ok "make install" "$(tail -5 "$DIR/install.out")"
cat >"$DIR/standins" <<END
export PATH=$DIR/inst/usr/bin:\$PATH LD_LIBRARY_PATH=$DIR/inst/usr/lib
export PKG_CONFIG_PATH=$DIR/inst/usr/lib/pkgconfig PKG_CONFIG_SYSROOT_DIR=$DIR/inst
export PYTHONPATH=$DIR/inst/usr/lib/python3/dist-packages
END
cat >>"$DIR/standins" <<'END'
conf=$ROOT/etc/weka-appliance.conf
install() { command install $(echo " $* " | sed "s/ -[og] weka / /g; s/ -[og] weka / /g"); } # whoever runs this
sudo() { case $1 in -u) shift 2 ;; esac; "$@"; }
wekactl() {
	case " $* " in
	*" --config "* | *" --help "*) command wekactl "$@" ;;
	*) command wekactl --config "$conf" "$@" ;;
	esac
}
weka-appliance() { command weka-appliance "$@"; }
serving() {
	n=0
	until wekactl status >/dev/null 2>&1; do
		n=$((n + 1))
		[ $n -lt 2400 ] && kill -0 "$(cat $ROOT/pid)" 2>/dev/null || return 1
		sleep 0.05
	done
}
systemctl() {
	case $1 in
	stop) kill -TERM "$(cat $ROOT/pid)"; while kill -0 "$(cat $ROOT/pid)" 2>/dev/null; do sleep 0.05; done ;;
	restart) systemctl stop; systemctl start ;;
	reload) command weka-appliance --check-config --config "$conf" >/dev/null && kill -HUP "$(cat $ROOT/pid)" ;;
	start | enable)
		command weka-appliance --config "$conf" >>$ROOT/log 2>&1 </dev/null 7>&- &
		echo $! >$ROOT/pid
		disown
		serving || { tail -n 3 $ROOT/log; return 1; } ;;
	*) echo "systemctl $1: no such stand-in"; return 1 ;;
	esac
}
journalctl() {
	pattern=.
	while [ $# -gt 0 ]; do
		case $1 in -g) pattern=$2; shift ;; esac
		shift
	done
	case $pattern in
	WEKA-[0-9]*) # the daemon answers a client first, and then tells the log
		for _ in $(seq 600); do
			! grep -qE -- "$pattern" $ROOT/log || break
			sleep 0.1
		done ;;
	esac
	grep -E -- "$pattern" $ROOT/log
}
END
n=0 pages=0 not_run=0
for page in docs/*.md; do
	name=$(basename "$page" .md)
	root=$DIR/$name
	n=$((n + 1))
	mkdir -p "$root/work" "$root/etc" "$root/var/lib/weka" "$root/run/weka"
	(cd "$root" && ln -s ../standins standins)
	: >"$root/at" && : >"$root/pid"
	port=$((PORT + 2 * (n % 2)))
	python3 test/e2e/docs.py script "$page" "$root" $port >"$root/script"
	(cd "$root" && ROOT=$root HERE=$HERE timeout 500 bash ./script </dev/null)
	kill -9 "$(cat "$root/pid")" 2>/dev/null
	python3 test/e2e/docs.py compare "$page" "$root" $port >"$root/compared"
	grep -v '^#' "$root/compared"
	failures=$((failures + $(grep -c '^not ok' "$root/compared")))
	not_run=$((not_run + $(grep -c '# not run: ' "$root/compared")))
	pages=$((pages + 1))
done

# ---- what the pages promise to have ---------------------------------------------------------------
is "the number of blocks that need another machine is what docs/README.md says" \
	"$(sed -n 's/^\([0-9]*\) blocks .*not run.*/\1/p' docs/README.md)" "$not_run"
sed -n 's/.*raise_alarm(.*"\([a-z_]*\)".*/\1/p; s/^[[:space:]]*a, "\([a-z_]*\)", \(true\|false\),$/\1/p' \
	appliance/core/app_alarms.c | LC_ALL=C sort -u >"$DIR/alarms"
sed -n 's/^| `\([a-z_]*\)` | \(critical\|warning\) .*/\1/p' docs/operate.md | LC_ALL=C sort >"$DIR/explained"
check "alarms are found" [ "$(wc -l <"$DIR/alarms")" -ge 15 ]
check "the operator's guide explains each alarm, and no other" diff "$DIR/alarms" "$DIR/explained"
for page in docs/*.md; do
	grep -o '](\([^)#]*\)' "$page" | sed 's/](//' | grep -v '^[a-z]*:' | while read -r link; do
		[ -z "$link" ] || [ -e "docs/$link" ] || echo "$page: $link"
	done
done >"$DIR/links"
is "links lead somewhere" "" "$(cat "$DIR/links")"
finish
