/*
 * What a guest needs for any program of the user's; in effect with LASTHOP_PROGRAMS in the environment. Included where a
 * program has stopped, to enter the kernel or by a signal (arch/um/os-Linux/skas/process.c).
 *
 * - The processor's time stamp counter tells virtual time, in nanoseconds: the host traps the instruction.
 * - A program that computes without a system call keeps virtual time from passing: after a while the guest says which one
 *   it is, and ends.
 * - With LASTHOP_CPU_COST, computing takes time: so many virtual nanoseconds for each thousand
 *   of the processor's.
 */
#include <poll.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <time.h>

/* Processor time from one look at a program that computes to the next, in microseconds. */
#define LOOK_EVERY_US 10000
#define LOOKS_PER_S (1000000 / LOOK_EVERY_US)
/* Processor time that a program may take for nothing but computing, in seconds, unless it costs virtual time. */
#define SPIN_LIMIT_S 10
/* How the guest ends then. */
#define SPUN_EXIT_CODE 77

/* Here, for looks.h and host_files.c; and there and in time.c. */
int has_programs(void);
void end_for_spinning(void);
int wait_for_host(int file, int writes, int milliseconds);
int window_of_host(int file, void *size);
unsigned long long guest_nanoseconds(void);
int code_of_program(unsigned long address, void *code, int length);
void tell_of_spinning(unsigned int seconds);
void time_travel_ndelay(unsigned long nanoseconds);

int has_programs(void)
{
	static int known = -1;

	if (known < 0)
		known = getenv("LASTHOP_PROGRAMS") != NULL;
	return known;
}

void end_for_spinning(void)
{
	_exit(SPUN_EXIT_CODE);
}

/* Waits for a file of the host's, so many milliseconds at most; positive if it is ready. */
int wait_for_host(int file, int writes, int milliseconds)
{
	struct pollfd wanted = { .fd = file, .events = writes ? POLLOUT : POLLIN };
	int ready = poll(&wanted, 1, milliseconds);

	return ready < 0 ? -errno : ready;
}

/* Tells the size of the window of a file of the host's. */
int window_of_host(int file, void *size)
{
	return ioctl(file, TIOCGWINSZ, size) ? -errno : 0;
}

/*
 * Of a program's process, which calls it before anything else; with SIG_BLOCK if the kernel cannot tell the signal yet.
 * Timer, blocked signals and the trapped counter outlast the start of another program.
 */
static void let_be_watched(int how)
{
	struct itimerval often = { { 0, LOOK_EVERY_US }, { 0, LOOK_EVERY_US } };
	sigset_t profiling;

	if (!has_programs())
		return;
	sigemptyset(&profiling);
	sigaddset(&profiling, SIGPROF);
	sigprocmask(how, &profiling, NULL);
	prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0);
	setitimer(ITIMER_PROF, &often, NULL);
}

/*
 * Whether a program that has stopped by SIGSEGV may have stopped at a trapped instruction, and not for want of a page. To
 * read its code for that brings the page in, and up to Linux 6.1 the process then no longer knows what it stopped for.
 * Where a process is not traced, its siginfo is not to be had.
 */
static int may_be_trapped(int pid)
{
	siginfo_t info;

	return ptrace(PTRACE_GETSIGINFO, pid, 0, &info) || info.si_code == SI_KERNEL;
}

/* If the program has stopped at the instruction rdtsc or rdtscp: carries it out. */
static int tells_counter(struct uml_pt_regs *regs)
{
	static const unsigned char rdtsc[] = { 0x0f, 0x31 }, rdtscp[] = { 0x0f, 0x01, 0xf9 };
	unsigned char code[sizeof(rdtscp)];
	unsigned long long counter;
	int had = code_of_program(UPT_IP(regs), code, sizeof(code)), length;

	if (had >= (int)sizeof(rdtsc) && !memcmp(code, rdtsc, sizeof(rdtsc)))
		length = sizeof(rdtsc);
	else if (had == sizeof(rdtscp) && !memcmp(code, rdtscp, sizeof(rdtscp)))
		length = sizeof(rdtscp);
	else
		return 0;
	counter = guest_nanoseconds();
	regs->gp[HOST_AX] = counter & 0xffffffff;
	regs->gp[HOST_DX] = counter >> 32;
	if (length == sizeof(rdtscp))
		regs->gp[HOST_CX] = 0;
	UPT_IP(regs) += length;
	return 1;
}

/* Lets time pass for what a process has computed since the last look. */
static void charge(int pid, unsigned long cost)
{
	static unsigned long long before;
	static int charged;
	struct timespec used;
	unsigned long long now;

	/* The processor time of another process, as clock_getcpuclockid(3) has it. */
	if (clock_gettime((clockid_t)(~(unsigned int)pid << 3 | 2), &used))
		return;
	now = used.tv_sec * 1000000000ULL + used.tv_nsec;
	if (pid == charged && now > before)
		time_travel_ndelay((now - before) * cost / 1000);
	before = now;
	charged = pid;
}

/* Looks at a program that has stopped; the signal that is to be acted upon, SIGALRM for none. */
static int look_at_program(int pid, int stop_signal, struct uml_pt_regs *regs)
{
	static int looked;
	static unsigned long cost, spins;

	if (!looked) {
		const char *asked = getenv("LASTHOP_CPU_COST");

		looked = 1;
		cost = asked ? strtoul(asked, NULL, 10) : 0;
	}
	if (cost)
		charge(pid, cost);
	if (stop_signal == SIGSEGV)
		return may_be_trapped(pid) && tells_counter(regs) ? SIGALRM : stop_signal;
	if (stop_signal != SIGPROF) {
		spins = 0;
		return stop_signal;
	}
	if (++spins >= SPIN_LIMIT_S * LOOKS_PER_S && !cost) {
		tell_of_spinning(SPIN_LIMIT_S);
		end_for_spinning();
	}
	return SIGALRM;
}
