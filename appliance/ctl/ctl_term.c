/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/*
 * Handlers call only write(), tcsetattr() and raise(), which are async-signal-safe.  Signals after
 * which the page is drawn again are blocked except during the wait for a key, so one that comes
 * just before the wait ends it.
 */
#define _GNU_SOURCE
#include "appliance/ctl/ctl_term.h"
#include "base/num.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

/* The second screen, and no cursor; and back. */
static const char enter_text[] = "\033[?1049h\033[?25l";
static const char leave_text[] = "\033[?25h\033[?1049l";

static const int ending[] = { SIGINT,  SIGTERM, SIGHUP, SIGQUIT, SIGPIPE,
			      SIGABRT, SIGSEGV, SIGBUS, SIGFPE,  SIGILL };

static struct termios saved;
static sigset_t outside, waiting;   /* blocked signals */
static volatile sig_atomic_t is_on; /* volatile: handlers change it */

static void enter(void)
{
	struct termios raw = saved;

	ASSERT(!is_on);
	raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	raw.c_cc[VMIN] = 1;
	raw.c_cc[VTIME] = 0;
	(void)tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
	(void)!write(STDOUT_FILENO, enter_text, sizeof(enter_text) - 1);
	is_on = 1;
}

static void leave(void)
{
	if (!is_on)
		return;
	is_on = 0;
	(void)!write(STDOUT_FILENO, leave_text, sizeof(leave_text) - 1);
	(void)tcsetattr(STDIN_FILENO, TCSADRAIN, &saved);
}

/* SA_RESETHAND: the second time, the signal does what it does by default. */
static void end_by(int signal)
{
	leave();
	(void)raise(signal);
}

static void stop_by(int signal)
{
	const int err = errno;

	(void)signal;
	leave();
	(void)raise(SIGSTOP);
	enter(); /* SIGCONT has come */
	errno = err;
}

static void wake_by(int signal)
{
	(void)signal; /* ppoll() returns -EINTR */
}

static void handle(int signal, void (*handler)(int), int flags)
{
	struct sigaction a = { .sa_handler = handler, .sa_flags = flags };

	sigemptyset(&a.sa_mask);
	(void)sigaction(signal, &a, NULL);
}

int ctl_term_begin(void)
{
	if (tcgetattr(STDIN_FILENO, &saved) < 0)
		return -errno;
	for (size_t i = 0; i < ARRAY_LEN(ending); i++)
		handle(ending[i], end_by, (int)SA_RESETHAND);
	handle(SIGTSTP, stop_by, 0);
	handle(SIGWINCH, wake_by, 0);
	sigemptyset(&outside);
	sigaddset(&outside, SIGTSTP);
	sigaddset(&outside, SIGWINCH);
	(void)sigprocmask(SIG_BLOCK, &outside, &waiting);
	enter();
	return 0;
}

void ctl_term_end(void)
{
	leave();
	for (size_t i = 0; i < ARRAY_LEN(ending); i++)
		handle(ending[i], SIG_DFL, 0);
	handle(SIGTSTP, SIG_DFL, 0);
	handle(SIGWINCH, SIG_DFL, 0);
	(void)sigprocmask(SIG_SETMASK, &waiting, NULL);
}

void ctl_term_size(uint32_t *columns, uint32_t *rows)
{
	struct winsize w = { 0 };

	(void)ioctl(STDOUT_FILENO, TIOCGWINSZ, &w);
	*columns = w.ws_col ? w.ws_col : 80;
	*rows = w.ws_row ? w.ws_row : 24;
}

int ctl_term_key(int timeout_ms)
{
	struct pollfd in = { .fd = STDIN_FILENO, .events = POLLIN };
	const struct timespec time = { timeout_ms / 1000, timeout_ms % 1000 * 1000000L };
	unsigned char key;
	ssize_t got;

	if (ppoll(&in, 1, timeout_ms < 0 ? NULL : &time, &waiting) <= 0)
		return 0;
	got = read(STDIN_FILENO, &key, 1);
	if (got < 0 && (errno == EINTR || errno == EAGAIN))
		return 0;
	return got == 1 ? key : -1;
}

void ctl_term_draw(const char *page)
{
	/* Each line clears what was right of it, and the last what was below. */
	printf("\033[H");
	for (const char *at = page; *at;) {
		const size_t bytes = strcspn(at, "\n");

		printf("%.*s\033[K%s", (int)bytes, at, at[bytes] && at[bytes + 1] ? "\n" : "");
		at += bytes + (at[bytes] == '\n');
	}
	printf("\033[J");
	fflush(stdout);
}
