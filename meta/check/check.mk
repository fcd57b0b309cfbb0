# meta/check/ - check of a whole store, and the scrub.
meta/check_uses := base meta meta/format meta/engine meta/plans meta/ops meta/mount
meta/check_srcs := $(wildcard meta/check/*.c)
