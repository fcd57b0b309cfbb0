# appliance/ - the daemon: one polling loop a core, operations as stages.
appliance_uses := base nvme meta fabric
appliance_srcs := $(wildcard appliance/*.c)

programs            += weka-appliance
weka-appliance_main := appliance/main.c
weka-appliance_srcs := base/seal_malloc.c
weka-appliance_uses := base nvme meta fabric appliance

programs     += wekactl
wekactl_main := appliance/wekactl.c
wekactl_srcs := $(wildcard appliance/ctl_*.c)
wekactl_hdrs := $(wildcard appliance/ctl*.h)
wekactl_uses := base nvme meta fabric client-lib appliance
