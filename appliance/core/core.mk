# appliance/core/ - one polling loop a core: sessions, and the operations as stages.
appliance/core_uses := base nvme meta meta/run fabric appliance/conf appliance/media
appliance/core_srcs := $(wildcard appliance/core/*.c)
