# bench/ - weka-bench: the numbers that people choose storage by.
bench_uses      := base nvme nvme/driver fabric fabric/client fabric/server client-lib client-lib/dataset
programs        += weka-bench
weka-bench_srcs := $(wildcard bench/*.c bench/*/*.c)
weka-bench_uses := $(bench_uses)

# bench/ is no layer with an archive: its tests name what they test.
bench_test             := bench/bench_util.c bench/bench_report.c
test_bench_report_srcs  := $(bench_test)
test_bench_measure_srcs := $(bench_test) bench/bench_measure.c
test_bench_pipe_srcs    := $(bench_test) bench/bench_pipe.c
test_bench_pair_srcs    := $(bench_test) bench/bench_pipe.c bench/bench_pair.c
test_bench_posix_srcs   := $(bench_test) bench/bench_posix.c
test_bench_load_srcs    := $(bench_test) bench/bench_load.c
test_bench_tree_srcs    := $(bench_test) bench/bench_tree.c
bench_targets           := $(bench_test) bench/bench_env.c $(wildcard bench/target/*.c)
test_bench_loop_srcs    := $(bench_targets)
test_bench_target_srcs  := $(bench_targets)
test_bench_mlperf_srcs  := $(bench_targets) $(filter-out %_main.c,$(wildcard bench/mlperf/*.c))
test_bench_mlperf_table_srcs := $(test_bench_mlperf_srcs)
test_bench_checkpoint_srcs := bench/mlperf/checkpoint_table.c
test_bench_figure_srcs  := $(bench_targets) bench/report/figure.c bench/report/report.c bench/report/report_html.c \
	bench/report/report_svg.c
test_bench_size_srcs    := $(test_bench_mlperf_srcs)
test_bench_protect_srcs := bench/protect/protect_scheme.c
test_bench_fair_srcs    := $(bench_test) bench/bench_shares.c
