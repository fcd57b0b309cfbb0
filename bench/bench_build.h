/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* What was built; the Makefile says (-D), a build by hand does not know. */
#ifndef BENCH_BUILD_H
#define BENCH_BUILD_H

#ifndef BENCH_COMMIT
#define BENCH_COMMIT "unknown"
#endif
#ifndef BENCH_VARIANT
#define BENCH_VARIANT "unknown"
#endif
#if defined(__clang__)
#define BENCH_COMPILER "clang " __clang_version__
#else
#define BENCH_COMPILER "gcc " __VERSION__
#endif

#endif
