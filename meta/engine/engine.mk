# meta/engine/ - pages in memory, trees, transactions, the log, checkpoints, zones, and what cores share.
meta/engine_uses := base meta meta/format
meta/engine_srcs := $(wildcard meta/engine/*.c)
