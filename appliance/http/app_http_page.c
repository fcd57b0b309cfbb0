/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * The page's files, which the program contains as they are in appliance/http/page/.
 *
 * uPlot (page/uplot/) is Leon Sorokin's, under the MIT licence beside it.
 */
#include "appliance/http/app_http_internal.h"

#define FILE_IN(name, path)                                                                        \
	__asm__(".section .rodata\n"                                                               \
		".balign 16\n"                                                                     \
		"http__" #name "_from: .incbin \"appliance/http/page/" path "\"\n"                 \
		"http__" #name "_end: .byte 0\n"                                                   \
		".text\n");                                                                        \
	extern const char http__##name##_from[], http__##name##_end[]

FILE_IN(page, "index.html");
FILE_IN(css, "page.css");
FILE_IN(js, "page.js");
FILE_IN(uplot_js, "uplot/uPlot.iife.min.js");
FILE_IN(uplot_css, "uplot/uPlot.min.css");

#define FILE_AT(name) http__##name##_from, http__##name##_end

const struct http__file http__files[] = {
	{ "/", "text/html; charset=utf-8", FILE_AT(page) },
	{ "/page.css", "text/css; charset=utf-8", FILE_AT(css) },
	{ "/page.js", "text/javascript; charset=utf-8", FILE_AT(js) },
	{ "/uplot.js", "text/javascript; charset=utf-8", FILE_AT(uplot_js) },
	{ "/uplot.css", "text/css; charset=utf-8", FILE_AT(uplot_css) },
};
const size_t http__file_count = sizeof(http__files) / sizeof(http__files[0]);
