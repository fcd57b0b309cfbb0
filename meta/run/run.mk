# meta/run/ - the store as its owner holds it: made, turned, ended; one row an operation.
meta/run_uses := base meta meta/format meta/engine meta/plans meta/ops meta/mount meta/check
meta/run_srcs := $(wildcard meta/run/*.c)
