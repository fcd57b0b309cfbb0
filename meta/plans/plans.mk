# meta/plans/ - one file an operation: what it reads, and what it wants to change.
meta/plans_uses := base meta meta/format meta/engine
meta/plans_srcs := $(wildcard meta/plans/*.c)
