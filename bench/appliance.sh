# SPDX-License-Identifier: BSD-2-Clause-Patent
# shellcheck shell=sh
# Scripts of bench/ source this file, with $bin and $dir set.  start_appliance formats a drive, a file of
# 512 MiB in $dir, and starts an appliance on it, which serves over $shm: $daemon.  ctl() is wekactl there.
daemon=
shm=shm:$dir/sock
ctl() { "$bin/wekactl" --connect "$shm" --key "$dir/key" "$@"; }

start_appliance() {
	cat >"$dir/conf" <<-END
		drive = file:$dir/d0?size=512M
		listen = $shm
		key_file = $dir/key
		cache = 64M
		core = none
	END
	"$bin/wekactl" --config "$dir/conf" keys init >/dev/null
	"$bin/wekactl" --config "$dir/conf" format >/dev/null
	"$bin/weka-appliance" --config "$dir/conf" >"$dir/daemon.log" 2>&1 &
	daemon=$!
	until ctl status >/dev/null 2>&1; do
		kill -0 "$daemon" 2>/dev/null || { tail -3 "$dir/daemon.log" >&2; return 1; }
		sleep 0.05
	done
}
