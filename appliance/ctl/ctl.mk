# appliance/ctl/ - wekactl: a client of the library; offline, it opens drives as the daemon does.
appliance/ctl_uses := base nvme nvme/driver meta meta/run meta/offline fabric fabric/client fabric/server client-lib client-lib/dataset appliance/conf appliance/media appliance/core

wekactl_main := appliance/ctl/wekactl.c
wekactl_srcs := $(wildcard appliance/ctl/ctl_*.c)
wekactl_uses := $(appliance/ctl_uses)
