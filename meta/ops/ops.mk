# meta/ops/ - operations under way, readers, and the store's own work: collection of pages and of data.
meta/ops_uses := base meta meta/format meta/engine meta/plans
meta/ops_srcs := $(wildcard meta/ops/*.c)
