# meta/ - which bytes of which file lie on which blocks: no I/O, no clock.  Its rooms, lower ones
# first; the headers that lie here say what all of them share.
meta := meta/format meta/engine meta/plans meta/ops meta/mount meta/check meta/run meta/offline
meta_uses := base
meta_srcs :=
