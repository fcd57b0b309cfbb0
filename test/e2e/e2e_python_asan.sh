#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause-Patent
# The Python package's tests once more, with the extension and the library in it under ASan and
# UBSan.  Python itself is not, and leaks by its nature: leaks are not looked for.  Left out are the
# tests of memory, since ASan keeps what is freed, and a fork beside threads that allocate, since
# its allocator is then locked in the child.
cd "$(dirname "$0")/../.." && . test/e2e/lib.sh
. test/python/appliances.sh

asan=$(${CC:-gcc} -print-file-name=libasan.so) ubsan=$(${CC:-gcc} -print-file-name=libubsan.so)
PYTHONPATH=$(realpath "$BUILD/asan/python") PYTHONMALLOC=malloc
export PYTHONPATH PYTHONMALLOC
export ASAN_OPTIONS="${ASAN_OPTIONS:-}:detect_leaks=0:handle_segv=1" UBSAN_OPTIONS="${UBSAN_OPTIONS:-print_stacktrace=1}"
core=test/python/core
[ "${TEST_LENGTH:-long}" != short ] || core="$core/test_batch.py $core/test_misuse.py $core/test_pool.py"
# shellcheck disable=SC2086 # several files
PRELOAD="$asan $ubsan" pytest_lines -k "not tls and not left_behind and not another_thread_waits" $core
finish
