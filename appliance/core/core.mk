# appliance/core/ - one polling loop a core: sessions, and the operations as stages.
appliance/core_uses := base nvme nvme/driver meta meta/run fabric fabric/server appliance/conf appliance/media
appliance/core_srcs := $(wildcard appliance/core/*.c)
