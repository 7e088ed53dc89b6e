/*
 * Some programs wait by looking again and again: at the clock, or whether a file is ready. A look takes next to no virtual
 * time, so a second of waiting would take millions of them. After so many in a row, each further look takes a while, in
 * which others run. In effect for programs of the user's.
 */
#include <linux/delay.h>
#include <linux/sched.h>

#define LOOKS_IN_A_ROW 1000
#define LOOK_US 10
/* Programs that are counted apart; a power of two. */
#define LOOKERS 256

/* In programs.h. */
int has_programs(void);

static bool is_look(int number, long result)
{
	switch (number) {
	case __NR_clock_gettime:
	case __NR_gettimeofday:
	case __NR_time:
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

/* A call of the current program's is over. */
static void slow_down_looks(int number, long result)
{
	static struct looker {
		pid_t pid;
		unsigned int looks;
		unsigned long sleeps;
	} lookers[LOOKERS];
	struct looker *own = &lookers[current->pid % LOOKERS];

	if (!has_programs())
		return;
	if (own->pid != current->pid || own->sleeps != current->nvcsw || !is_look(number, result))
		own->looks = 0;
	else if (++own->looks > LOOKS_IN_A_ROW)
		usleep_range(LOOK_US, LOOK_US);
	own->pid = current->pid;
	own->sleeps = current->nvcsw;
}
