/*
 * Some programs wait by looking again and again: at the clock, or whether a file is ready. A look takes next to no virtual
 * time, so a second of waiting would take millions of them. After so many in a row, each further look takes a while, in
 * which others run. Any other call, made again and again, would keep time from passing for ever: after a million of them
 * the guest says which program it is, and ends. In effect for programs of the user's.
 */
#include <linux/delay.h>
#include <linux/hash.h>
#include <linux/jiffies.h>
#include <linux/sched.h>
#include <os.h>

#define LOOKS_IN_A_ROW 1000
#define LOOK_US 10
/* Programs that are counted apart; a power of two. */
#define LOOKERS 256

/* So many different calls, made again and again, still count as spinning; and so many of them in a row. */
#define SAME_CALLS 8
#define SAME_CALLS_LIMIT 1000000

/* In programs.h. */
int has_programs(void);
void end_for_spinning(void);

static unsigned long hash_of(int number, long result, const unsigned long *arguments)
{
	unsigned long hash = hash_long(number, BITS_PER_LONG) ^ hash_long(result, BITS_PER_LONG);
	unsigned int i;

	for (i = 0; i < 6; i++)
		hash = hash_long(hash, BITS_PER_LONG) ^ arguments[i];
	return hash;
}

static bool is_look(int number, long result)
{
	switch (number) {
	case __NR_clock_gettime:
	case __NR_gettimeofday:
	case __NR_time:
	case __NR_times:
	case __NR_sched_yield:
	case __NR_select:
	case __NR_pselect6:
	case __NR_poll:
	case __NR_ppoll:
	case __NR_epoll_wait:
	case __NR_epoll_pwait:
		return true;
	default:
		return result == -EAGAIN;
	}
}

/* Ends the guest if the current program does nothing but make the same few calls within a tick. */
static void look_for_spinning(int number, long result, const unsigned long *arguments)
{
	static unsigned long since;
	static unsigned long known[SAME_CALLS], repeats;
	static unsigned int oldest;
	unsigned long call = hash_of(number, result, arguments);
	unsigned int i;

	if (since != jiffies) {
		since = jiffies;
		repeats = 0;
	}
	for (i = 0; i < SAME_CALLS; i++) {
		if (known[i] != call)
			continue;
		if (++repeats >= SAME_CALLS_LIMIT) {
			os_warn("lasthop: %s (process %d) has made the same few system calls %u times\n",
				current->comm, task_tgid_vnr(current), SAME_CALLS_LIMIT);
			end_for_spinning();
		}
		return;
	}
	repeats = 0;
	known[oldest++ % SAME_CALLS] = call;
}

static void slow_down_looks(int number, long result)
{
	static struct looker {
		pid_t pid;
		unsigned int looks;
		unsigned long sleeps;
	} lookers[LOOKERS];
	struct looker *own = &lookers[current->pid % LOOKERS];

	if (own->pid != current->pid || own->sleeps != current->nvcsw || !is_look(number, result))
		own->looks = 0;
	else if (++own->looks > LOOKS_IN_A_ROW)
		usleep_range(LOOK_US, LOOK_US);
	own->pid = current->pid;
	own->sleeps = current->nvcsw;
}

/* A call of the current program's is over; it had these arguments. */
static void watch_call(int number, long result, const unsigned long *arguments)
{
	if (!has_programs())
		return;
	slow_down_looks(number, result);
	look_for_spinning(number, result, arguments);
}
