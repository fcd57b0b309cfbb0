# base/ - what every layer stands on: no I/O, no threads, no policy.
base_uses :=
# seal_malloc.c stands in front of libc: a program that wants it names it itself.
base_srcs := $(filter-out base/seal_malloc.c,$(wildcard base/*.c))
