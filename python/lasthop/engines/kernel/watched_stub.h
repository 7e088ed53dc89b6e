/*
 * Of the program with which each of a guest's processes begins (arch/um/kernel/skas/stub_exe.c): from here on the kernel
 * can tell the signal by which it looks at programs that compute (programs.h), which was blocked until now.
 */
static void begin_watch(void)
{
	unsigned long profiling = 1UL << (SIGPROF - 1);

	stub_syscall4(__NR_rt_sigprocmask, SIG_UNBLOCK, (unsigned long)&profiling, 0, sizeof(profiling));
}

/* With seccomp, the program itself tells the kernel of its signals. */
static void handle_watch(const void *action)
{
	if (stub_syscall4(__NR_rt_sigaction, SIGPROF, (unsigned long)action, 0, sizeof(unsigned long long)))
		stub_syscall1(__NR_exit, 22);
}
