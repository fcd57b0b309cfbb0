# meta/offline/ - without a mount: dump, and salvage of what is left.
meta/offline_uses := base meta meta/format meta/engine
meta/offline_srcs := $(wildcard meta/offline/*.c)
