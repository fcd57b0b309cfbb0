/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Commands of weka-bench with options of their own: argv[0] is "weka-bench NAME".  Each returns
 * the exit status. */
#ifndef BENCH_COMMAND_H
#define BENCH_COMMAND_H

int command_mlperf(int argc, char **argv);
int command_checkpoint(int argc, char **argv);
int command_kvcache(int argc, char **argv);
int command_compare(int argc, char **argv);
int command_report(int argc, char **argv);
int command_protect(int argc, char **argv);
int command_size(int argc, char **argv);

#endif
