/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * wekactl completion: one script for both shells, since zsh can run bash's.
 *
 * A word behind a command is one of the command's own words, or a file.  Nothing is asked of the
 * appliance: a shell that waits for the network at each Tab is worse than none.
 */
#include "appliance/ctl/ctl_completion.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Indented as the shell has it. */
static const char script[] =
	"_wekactl() {\n"
	"	local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}\n"
	"	local command= words= i\n"
	"	COMPREPLY=()\n"
	"	case $before in --config|-f|--key|-k|--salvage|--log) return ;; esac\n"
	"	case $word in\n"
	"	-*) COMPREPLY=($(compgen -W \"$_wekactl_options\" -- \"$word\")); return ;;\n"
	"	esac\n"
	"	for ((i = 1; i < COMP_CWORD; i++)); do\n"
	"		case \" $_wekactl_commands \" in\n"
	"		*\" ${COMP_WORDS[i]} \"*) command=${COMP_WORDS[i]}; break ;;\n"
	"		esac\n"
	"	done\n"
	"	[ \"$command\" != \"$before\" ] || case $command in\n"
	"	config) words='check keys' ;;\n"
	"	completion) words='bash zsh' ;;\n"
	"	dataset) words='create list show verify compare drop' ;;\n"
	"	drives) words='attach detach restore add replace drain undrain' ;;\n"
	"	keys) words='init list show add remove' ;;\n"
	"	protect) words='mirror 1+2 2+1 3+1 4+1 8+1 4+2 8+2' ;;\n"
	"	esac\n"
	"	[ -n \"$command\" ] || words=$_wekactl_commands\n"
	"	[ -z \"$words\" ] || COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
	"}\n"
	"complete -o default -F _wekactl wekactl\n";

static void print_options(const struct argp_option *options)
{
	printf("_wekactl_options='--help --version");
	for (const struct argp_option *o = options; o->name; o++) {
		printf(" --%s", o->name);
		if (o->key < 128 && isalpha(o->key))
			printf(" -%c", o->key);
	}
	printf("'\n");
}

int ctl_completion_print(const char *shell, const char *const *names, size_t count,
			 const struct argp_option *options)
{
	const bool is_zsh = strcmp(shell, "zsh") == 0;

	if (!is_zsh && strcmp(shell, "bash") != 0)
		return -EINVAL;
	printf("# wekactl(8): source <(wekactl completion %s)\n", shell);
	if (is_zsh)
		printf("autoload -U +X compinit && compinit\n"
		       "autoload -U +X bashcompinit && bashcompinit\n");
	printf("_wekactl_commands='");
	for (size_t i = 0; i < count; i++)
		printf("%s%s", i ? " " : "", names[i]);
	printf("'\n");
	print_options(options);
	fputs(script, stdout);
	return 0;
}
