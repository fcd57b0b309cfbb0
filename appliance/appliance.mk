# appliance/ - the daemon: one polling loop a core, operations as stages.
appliance_uses := base nvme meta fabric
appliance_srcs := $(wildcard appliance/*.c)
