# base/ - what every layer stands on: no I/O, no threads, no policy.
base_uses :=
base_srcs := $(wildcard base/*.c)
