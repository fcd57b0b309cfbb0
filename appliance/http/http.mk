# appliance/http/ - metrics and the live page over HTTP, by a thread that may wait.
appliance/http_uses := base nvme meta fabric appliance/conf appliance/media appliance/core
appliance/http_srcs := $(wildcard appliance/http/*.c)
# What lies in the program as it is.
$(B)/appliance/http/app_http_page.o: $(wildcard appliance/http/page/* appliance/http/page/uplot/*)
