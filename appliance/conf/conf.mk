# appliance/conf/ - the configuration file, the keys, and the addresses that clients connect to.
appliance/conf_uses := base nvme nvme/driver meta fabric fabric/server
appliance/conf_srcs := $(wildcard appliance/conf/*.c)
