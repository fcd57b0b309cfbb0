#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# Programs that were never changed, with libweka-preload.so: coreutils, find, tar, rsync, git, Python
# with numpy and PyTorch.  Each must print the same as on a local copy of the tree; without a mount, and
# over one.  Programs that are not installed are left out.  Short runs take each group of them once.
cd "$(dirname "$0")/../.." && . test/e2e/lib.sh && . test/e2e/mount_lib.sh && . test/e2e/preload_lib.sh
: "${APP_CORES:=1}"
SHORT=no
[ "${TEST_LENGTH:-short}" != short ] || SHORT=yes
have() { command -v "$1" >/dev/null; }
PYTHON=/usr/bin/python3 # Debian's, which has numpy and torch
LOCAL=$DIR/local

# alike NAME COMMAND: the shell's COMMAND says the same of $ROOT, locally and served.
alike() {
	ROOT=$LOCAL/t sh -c "$2" >"$DIR/wanted" 2>&1
	ROOT=$AT/t served sh -c "$2" >"$DIR/got" 2>&1
	sed -i "s|$LOCAL/t|ROOT|g" "$DIR/wanted" && sed -i "s|$AT/t|ROOT|g" "$DIR/got"
	if ! cmp -s "$DIR/wanted" "$DIR/got"; then
		not_ok "$WHERE: $1" "$(diff "$DIR/wanted" "$DIR/got" | cut -c 1-300 | head -6)"
	elif [ ! -s "$DIR/wanted" ] || grep -q 'Traceback' "$DIR/wanted"; then
		not_ok "$WHERE: $1" "it says nothing: $(tail -3 "$DIR/wanted")"
	else
		ok "$WHERE: $1"
	fi
}
python() { alike "python: $1" "PYTHONPATH= $PYTHON test/e2e/preload_python.py \"\$ROOT${2:-}\" $1"; }

tools() {
	alike "cat" 'cat "$ROOT"/size-* | sha256sum'
	alike "sha256sum" 'sha256sum "$ROOT"/sub/* "$ROOT"/size-*'
	alike "md5sum of standard input" 'for f in "$ROOT"/size-*; do md5sum <"$f"; done'
	alike "wc" 'wc "$ROOT"/sub/file* | tail -3'
	alike "ls -lR" 'LC_ALL=C ls -lR --time-style=full-iso "$ROOT" | grep -v "^total\|^d"'
	alike "ls of one" 'ls -l --full-time "$ROOT"/size-4096 "$ROOT"/sub/link; ls -d "$ROOT"/empty "$ROOT/nothing"'
	alike "find" 'LC_ALL=C find "$ROOT" -printf "%p|%y|%m|%T@|%l|%U|%G\n" | sort'
	alike "find -size" 'find "$ROOT" -type f -size +100k -newermt 2000-01-01 | sort'
	alike "find -exec" 'find "$ROOT/sub" -maxdepth 1 -type f -exec sha256sum {} + | sort'
	alike "stat" 'stat -c "%n %a %s %h %u %F %Y" "$ROOT"/size-* "$ROOT"/dangling; stat -L -c %s "$ROOT/sub/link"'
	alike "readlink" 'readlink "$ROOT/dangling" "$ROOT"/sub/*link*'
	alike "head, tail, cut" 'head -c 1000 "$ROOT/size-8192" | sha256sum; tail -c 1000 "$ROOT/size-9000001" | sha256sum; tail -n +2 "$ROOT/size-65536" | wc -c'
	alike "cmp" 'cmp "$ROOT/size-4096" "$ROOT/size-4097" || echo differ; cmp "$ROOT/size-4096" "$ROOT/size-4096" && echo same'
	alike "dd" 'dd if="$ROOT/size-1048577" bs=1000 skip=7 count=100 status=none | sha256sum'
	alike "grep -r" 'grep -rc . "$ROOT/sub/deeper" "$ROOT/size-0" | sort'
	alike "sort" 'sort "$ROOT/size-65536" | sha256sum'
	alike "gzip" 'gzip -c "$ROOT/size-65536" | gunzip | sha256sum'
	alike "od" 'od "$ROOT/size-513" | tail -2'
	alike "a shell reads lines" 'while read -r line; do echo "$line"; done <"$ROOT/sub/deeper/with
newline"; . "$ROOT/script"; sh "$ROOT/script"'
	alike "a shell's redirections" 'exec 3<"$ROOT/size-8192"; head -c 10 <&3 | wc -c; dd bs=1 count=5 status=none <&3 | wc -c; cat <&3 | sha256sum'
	alike "what is not there" 'cat "$ROOT/nothing" "$ROOT/size-1/x" "$ROOT"; ls "$ROOT/nothing"; [ -e "$ROOT/dangling" ] || echo dangling'
	alike "dots and links" 'cat "$ROOT/sub/../size-513" "$ROOT/./sub/link" "$ROOT/sub/deeper/../../size-1" "$ROOT/../t/size-1" | sha256sum; ls -ld "$ROOT/out"; [ -d "$ROOT/out/." ] && echo out'
}
copies() {
	check "$WHERE: cp -a" served cp -a "$AT/t" "$DIR/cp"
	check "$WHERE: which is the same" same_trees "$LOCAL/t" "$DIR/cp"
	check "$WHERE: cp of each file" sh -c "mkdir '$DIR/cp2' && WEKA_PRELOAD='-o key=$DIR/key $SHM $AT' LD_PRELOAD=$SO sh -c \"cp '$AT'/t/size-* '$DIR/cp2'\" && cd '$DIR/cp2' && for f in *; do cmp \$f '$LOCAL/t/'\$f || exit 1; done"
	is "$WHERE: diff -r finds nothing" "" "$(served diff -r --no-dereference "$LOCAL/t" "$AT/t" 2>&1)"
	check "$WHERE: tar packs" served tar --format=posix -cf "$DIR/t.tar" "$AT/t"
	check "$WHERE: and all is there" sh -c "mkdir '$DIR/tar' && tar -C '$DIR/tar' -xpf '$DIR/t.tar' && mv '$DIR/tar$AT/t' '$DIR/tar/t'"
	check "$WHERE: which is the same, too" same_trees "$LOCAL/t" "$DIR/tar/t"
	if have rsync; then
		check "$WHERE: rsync -c" served rsync -ac "$LOCAL/t/" "$DIR/rsync/"
		# Its receiver changes into the target, its sender into the source: that needs a mount.
		[ "$WHERE" = "no mount" ] || is "$WHERE: rsync finds nothing to do" "" \
			"$(served rsync -aci --omit-dir-times "$AT/t/" "$DIR/rsync/" 2>&1)"
	fi
	rm -rf "$DIR/cp" "$DIR/cp2" "$DIR/tar" "$DIR/t.tar" "$DIR/rsync"
}
pythons() {
	python walk
	python read
	python mmap
	python threads
	python across
	python processes
	if $PYTHON -c 'import numpy' 2>/dev/null; then
		python numpy
		$PYTHON -c 'import torch, PIL' 2>/dev/null && python torch /images
	fi
}

mkdir "$LOCAL" "$DIR/none"
make_tree "$LOCAL/t" 40
ln -s ../.. "$LOCAL/t/out"
echo 'echo "a script, $1"' >"$LOCAL/t/script"
[ ! -x $PYTHON ] || (cd "$LOCAL/t" && $PYTHON - <<-'END'
	import os
	try:
	    import numpy
	    rand = numpy.random.default_rng(5)
	    numpy.save("a.npy", rand.random((30, 40)))
	    numpy.savez("b.npz", one=rand.random(5), two=rand.integers(0, 9, (3, 3)))
	    import torch
	    from PIL import Image
	    torch.save({"weight": torch.ones(20, 30)}, "saved.pt")
	    for c in "cat", "dog":
	        os.makedirs(f"images/{c}")
	        for i in range(20):
	            Image.fromarray(rand.integers(0, 255, (16, 16, 3), numpy.uint8)).save(f"images/{c}/{i}.{'png' if i % 2 else 'jpeg'}")
	except ImportError:
	    pass
END
)

write_conf mem:1G
echo "key_dir = $DIR/keys" >>"$CONF"
check "a key for a subtree" "$BIN/wekactl" --config "$CONF" keys add --path /part part "$DIR/part"
check "the appliance starts" start
check "the tree is imported" ctl import "$LOCAL" /
WHERE="no mount"
tools
copies
[ $SHORT = yes ] || pythons
check "the tree is imported once more" ctl import "$LOCAL" /part
OPTIONS=key=$DIR/part WHERE="no mount, a key for a subtree"
python across
python walk
OPTIONS=
need_fuse
check "it is mounted" mount_at "$MNT"
AT=$MNT WHERE="over a mount"
[ $SHORT = yes ] || tools
copies
pythons

# ---- with a mount: what changes directories, and what writes ----
alike "cd and relative paths" 'cd "$ROOT/sub" && cat link ../size-513 deeper/../link | sha256sum; ls -R .. | wc -l; cd deeper/.. && ls | sort | sha256sum; find . -type f | sort | sha256sum; tar -cf - . | tar -tf - | sort | sha256sum'
served cp "$LOCAL/t/size-65536" "$MNT/t/copied"
is "a copy is written and read" "$(sha256sum <"$LOCAL/t/size-65536")" "$(served cat "$MNT/t/copied" | sha256sum)"
is "sed -i, mv, mkdir, rm" "two dir" "$(served sh -c "cd '$MNT/t' && echo one >x && sed -i s/one/two/ x && mkdir dir && mv x dir/y && cat dir/y && ls -d dir && rm -r dir" | xargs)"
is "changes are seen at once" "1 22 333" "$(served sh -c "for i in 1 22 333; do echo \$i >'$MNT/t/x'; read v <'$MNT/t/x'; echo \$v; done" | xargs)"
if have git; then
	git config --file "$DIR/gitconfig" safe.directory '*' && export GIT_CONFIG_GLOBAL="$DIR/gitconfig"
	export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
	mkdir "$MNT/repo" && cp -a base README.md "$MNT/repo"
	check "git makes a repository" served sh -c "cd '$MNT/repo' && git init -q && git add . && git commit -qm one && git gc -q"
	is "git status" "" "$(served git -C "$MNT/repo" status --porcelain 2>&1)"
	check "git fsck" served git -C "$MNT/repo" fsck --full
	check "git clones it" served git clone -q "file://$MNT/repo" "$DIR/clone"
	check "which is the same" diff -r base "$DIR/clone/base"
	echo more >>"$MNT/repo/README.md"
	is "git sees a change" " M README.md" "$(served git -C "$MNT/repo" status --porcelain 2>&1)"
	is "git log, grep and show" "$(git -C "$MNT/repo" show --stat | sha256sum; git -C "$MNT/repo" grep -c assert | sha256sum)" \
		"$(served git -C "$MNT/repo" show --stat | sha256sum; served git -C "$MNT/repo" grep -c assert | sha256sum)"
fi
if have gcc; then
	cp -a base "$MNT/base"
	check "gcc compiles there" served sh -c "cd '$MNT' && gcc -std=gnu17 -O1 -march=x86-64-v2 -I. -c -o crc.o base/crc32c.c && [ -s crc.o ]"
fi
check "it is unmounted" umount "$MNT"
check "and its program ends" gone
is "without a complaint" "" "$(cat "$DIR/mount.log")"
check "the appliance stops" stop
finish
