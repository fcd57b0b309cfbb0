# meta/ - which bytes of which file lie on which blocks: no I/O, no clock.
meta_uses := base
meta_srcs := $(wildcard meta/*.c)
