# appliance/media/ - a store's drives: opening them, their reads and writes, and what they do wrong.
appliance/media_uses := base nvme nvme/driver meta meta/run fabric fabric/server appliance/conf
appliance/media_srcs := $(wildcard appliance/media/*.c)
