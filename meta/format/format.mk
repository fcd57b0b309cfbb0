# meta/format/ - records, pages and log blocks as bytes: what is on media is checked here, once.
meta/format_uses := base meta
meta/format_srcs := $(wildcard meta/format/*.c)
