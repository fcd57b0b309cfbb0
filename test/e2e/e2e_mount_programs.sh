#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# Programs that were never changed, on a mount: git, make and gcc, sqlite3, tar, cp and diff, rsync,
# vim, python.  Programs that are not installed are left out.
cd "$(dirname "$0")/../.." && set -- "$PWD/test/e2e/e2e_mount_programs.sh" && . test/e2e/lib.sh && . test/e2e/mount_lib.sh
: "${APP_CORES:=2}"
need_fuse
if [ "${TEST_LENGTH:-short}" != short ] && [ -z "${OPTIONS:-}" ]; then
	for o in cache=0 cache=5 buffered; do
		OPTIONS=$o "$1" || not_ok "with $o"
	done
	finish
fi
have() { command -v "$1" >/dev/null; }
HERE=$PWD

write_conf mem:2G
check "the appliance starts" start
OPTIONS=${OPTIONS:-cache=0}
check "it is mounted ($OPTIONS)" mount_at "$MNT" "$OPTIONS"

# ---- git ----
if have git; then
	git config --file "$DIR/gitconfig" safe.directory '*' && export GIT_CONFIG_GLOBAL="$DIR/gitconfig"
	export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
	from=$DIR/repository
	mkdir "$from" && cp -a base README.md LICENSE "$from" && git -C "$from" init -q && git -C "$from" add . &&
		git -C "$from" commit -qm zero
	[ "${TEST_LENGTH:-short}" = short ] || ! git rev-parse HEAD >/dev/null 2>&1 || from=$PWD
	check "git clones" git clone -q --depth 1 "file://$from" "$MNT/clone"
	check "git fsck finds nothing" git -C "$MNT/clone" fsck --full
	is "git status says that nothing changed" "" "$(git -C "$MNT/clone" status --porcelain)"
	commit() {
		cd "$MNT/clone" && echo more >>README.md && git mv LICENSE COPYING && git commit -qam one &&
			git checkout -qb side && git rm -q COPYING && git commit -qm two && git checkout -q - &&
			git merge -q side && git gc -q && git fsck --full && [ ! -e COPYING ]
	}
	check "git commits, merges and packs" commit
	cd "$HERE" || exit 1
fi

# ---- make, gcc ----
make_there() { env -u MAKEFLAGS -u MAKELEVEL make -s -j2 -C "$@"; }
if have gcc && have make; then
	mkdir -p "$MNT/build"
	cp -a base "$MNT/build/base"
	{
		echo 'objects := $(patsubst %.c,%.o,$(filter-out base/version.c base/seal_malloc.c,$(wildcard base/*.c)))'
		printf 'libbase.a: $(objects)\n\tar rcs $@ $^\n'
		printf '%%.o: %%.c\n\t$(CC) -std=gnu17 -O1 -march=x86-64-v2 -I. -MMD -c -o $@ $<\n'
		echo '-include $(wildcard base/*.d)'
	} >"$MNT/build/Makefile"
	check "make compiles with two jobs" make_there "$MNT/build"
	is "once made, nothing is made again" "" "$(make_there "$MNT/build" | grep -v 'up to date')"
	touch "$MNT/build/base/le.h"
	check "a header changes, and what it is in is made again" make_there "$MNT/build"
	printf '#include <stdio.h>\nint main(void)\n{\n\tputs("hello");\n}\n' >"$MNT/build/hello.c"
	check "gcc links a program" gcc -o "$MNT/build/hello" "$MNT/build/hello.c"
	is "that runs from the mount" hello "$("$MNT/build/hello")"
	if [ "${TEST_LENGTH:-short}" != short ] && [ -d "$MNT/clone/meta" ]; then
		check "all of this tree is compiled" make_there "$MNT/clone"
		check "and works" "$MNT/clone/build/release/bin/wekactl" --version
	fi
fi

# ---- sqlite3 ----
if have sqlite3; then
	for journal in delete wal; do
		sqlite3 "$MNT/$journal.db" >"$DIR/sql.out" 2>&1 <<-END
			pragma journal_mode = $journal;
			create table t (k integer primary key, v text);
			create index i on t (v);
			begin;
			with recursive n(x) as (select 1 union all select x + 1 from n where x < 20000)
			insert into t select x, hex(randomblob(20)) from n;
			commit;
			update t set v = 'changed' where k % 7 = 0;
			delete from t where k % 5 = 0;
			insert into t (v) values ('last');
			pragma integrity_check;
			select count(*) from t where v = 'changed';
			vacuum;
			pragma integrity_check;
		END
		is "sqlite3 with a journal of kind $journal" "$journal ok 2286 ok" "$(xargs <"$DIR/sql.out")"
	done
	python3 - "$MNT/delete.db" >"$DIR/sql.out" 2>&1 <<-'END'
		import os, sqlite3, sys
		count = 25
		for _ in range(3): # locks of sqlite among processes
		    if os.fork() == 0:
		        db = sqlite3.connect(sys.argv[1], timeout=120)
		        for i in range(count):
		            with db:
		                db.execute("insert into t (v) values ('by a child')")
		        os._exit(0)
		codes = [os.wait()[1] for _ in range(3)]
		db = sqlite3.connect(sys.argv[1])
		print(codes, db.execute("select count(*) from t where v = 'by a child'").fetchall(), db.execute("pragma integrity_check").fetchall())
	END
	is "three processes write to one database" "[0, 0, 0] [(75,)] [('ok',)]" "$(cat "$DIR/sql.out")"
fi

# ---- trees ----
make_tree "$DIR/tree" 60
check "tar unpacks a tree" sh -c "tar -C '$DIR' --format=posix -cf '$DIR/tree.tar' tree && mkdir '$MNT/tar' && tar -C '$MNT/tar' -xpf '$DIR/tree.tar'"
check "which is the same" same_trees "$DIR/tree" "$MNT/tar/tree"
check "tar packs one" sh -c "mkdir '$DIR/back' && tar -C '$MNT/tar' --format=posix -cf - tree | tar -C '$DIR/back' -xpf -"
check "which is the same, too" same_trees "$DIR/tree" "$DIR/back/tree"
check "cp -a within the mount" cp -a "$MNT/tar/tree" "$MNT/copy"
check "diff -r finds nothing" diff -r --no-dereference "$MNT/tar/tree" "$MNT/copy"
truncate -s 50M "$DIR/sparse" && echo end >>"$DIR/sparse"
check "cp keeps holes" cp --sparse=always "$DIR/sparse" "$MNT/sparse"
is "as holes" yes "$([ "$(stat -c %b "$MNT/sparse")" -lt 100 ] && echo yes)"
check "and their bytes" cmp "$DIR/sparse" "$MNT/sparse"
check "tar packs them" sh -c "tar -C '$MNT' -Scf - sparse | tar -C '$DIR/back' -xf - && cmp '$DIR/sparse' '$DIR/back/sparse'"
if have rsync; then
	check "rsync writes a tree" rsync -aHX "$DIR/tree/" "$MNT/rsync"
	check "which is the same" same_trees "$DIR/tree" "$MNT/rsync"
	is "a second time it has nothing to do" "" "$(rsync -aHXi "$DIR/tree/" "$MNT/rsync")"
	check "rsync reads it back" rsync -aHX "$MNT/rsync/" "$DIR/rsync"
	check "the same" same_trees "$DIR/tree" "$DIR/rsync"
fi
check "find sees each name" sh -c "[ \$(find '$MNT/copy' | wc -l) = \$(find '$DIR/tree' | wc -l) ]"
check "rm -r removes a tree" rm -r "$MNT/copy" "$MNT/tar"

# ---- loaders ----
# As torchvision's ImageFolder reads: bytes, labels and order are those of a local tree.
case ${TEST_LENGTH:-short} in
short) CLASSES=4 FILES=30 ;;
*) CLASSES=20 FILES=200 ;;
esac
folder() { python3 test/e2e/mount_folder.py "$@"; }
check "a folder of classes" folder "$DIR/folder" 1 0 make $CLASSES $FILES
check "is copied" cp -r "$DIR/folder" "$MNT/folder"
folder "$DIR/folder" 1 3 >"$DIR/epochs"
is "it has all samples" "$((CLASSES * FILES))" "$(sed -n '1s/.*: \([0-9]*\) samples.*/\1/p' "$DIR/epochs")"
for workers in 1 4; do
	is "$workers loading processes see the same bytes in the same order" "$(cat "$DIR/epochs")" "$(folder "$MNT/folder" $workers 3)"
done

# ---- editors, python ----
if have vim; then
	printf 'one\ntwo\n' >"$MNT/text"
	check "vim changes a file" timeout 60 vim -N -u NONE -i NONE -es -c '%s/two/three/' -c wq "$MNT/text"
	is "as it was told" "one three" "$(xargs <"$MNT/text")"
fi
echo one >"$MNT/sed"
check "sed changes a file in place" sed -i s/one/two/ "$MNT/sed"
is "it did" two "$(cat "$MNT/sed")"
check "python compiles and imports a package" sh -c "mkdir '$MNT/package' && echo 'value = 42' >'$MNT/package/mod.py' &&
	cd '$MNT' && env -u PYTHONDONTWRITEBYTECODE python3 -c 'import package.mod; assert package.mod.value == 42' && ls package/__pycache__/mod*.pyc"
check "a shell appends to one file from eight processes" sh -c "for i in 1 2 3 4 5 6 7 8; do
	(for j in 1 2 3 4 5 6 7 8 9 10; do echo \$i \$j; done >>'$MNT/appended') & done; wait; [ \$(wc -l <'$MNT/appended') = 80 ]"
check "it is unmounted" umount "$MNT"
check "and its program ends" gone
is "without a complaint" "" "$(cat "$DIR/mount.log")"
check "the appliance stops" stop
finish
