# meta/mount/ - format, mount and replay; drives that come and go.
meta/mount_uses := base meta meta/format meta/engine meta/plans meta/ops
meta/mount_srcs := $(wildcard meta/mount/*.c)
