/*
 * One more system call: it makes others, in order, up to the first that fails, and returns how many it has made. A call may
 * say how the others go on behind it, if it succeeds or if there is nothing to be had yet (EAGAIN), and some may depend on what
 * was found before. To enter the guest kernel costs far more than most calls do. In virtual time it makes no difference: between two calls happens what always happens there,
 * and a failure takes its time.
 */
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/uaccess.h>
#include "looks.h"

/* No architecture has calls of these numbers. */
#define BATCHED_CALLS 400
/* In a batch: it goes on only if the word at an address has this value. */
#define IS_WORD 401
/* In a batch: it goes on only if the time at an address comes before that at another. */
#define IS_BEFORE 402

/* From 7.2 on, it is written out where it is used. */
#ifndef EXECUTE_SYSCALL
#define EXECUTE_SYSCALL(number, regs) \
	(*sys_call_table[number])(UPT_SYSCALL_ARG1(&(regs)->regs), UPT_SYSCALL_ARG2(&(regs)->regs), \
				  UPT_SYSCALL_ARG3(&(regs)->regs), UPT_SYSCALL_ARG4(&(regs)->regs), \
				  UPT_SYSCALL_ARG5(&(regs)->regs), UPT_SYSCALL_ARG6(&(regs)->regs))
#endif

struct batched_call {
	long number, arguments[6], result;
	/* How many calls further on the next one is if this succeeds, or has EAGAIN; if zero, it is the last. */
	unsigned int next, next_if_empty;
};

static long execute_one(struct batched_call *call, struct pt_regs *regs)
{
	struct uml_pt_regs *r = &regs->regs;
	long result;

	if (call->number < 0 || call->number >= __NR_syscalls || call->number == BATCHED_CALLS)
		return -ENOSYS;
	UPT_SYSCALL_ARG1(r) = call->arguments[0];
	UPT_SYSCALL_ARG2(r) = call->arguments[1];
	UPT_SYSCALL_ARG3(r) = call->arguments[2];
	UPT_SYSCALL_ARG4(r) = call->arguments[3];
	UPT_SYSCALL_ARG5(r) = call->arguments[4];
	UPT_SYSCALL_ARG6(r) = call->arguments[5];
	result = EXECUTE_SYSCALL(call->number, regs);
	/* The kernel would start it again; here the program does. */
	return result <= -ERESTARTSYS && result >= -ERESTART_RESTARTBLOCK ? -EINTR : result;
}

/* Whether a batch goes on, which takes no time. */
static bool holds(const struct batched_call *call)
{
	const void __user *at = (void __user *)call->arguments[0];
	struct __kernel_timespec times[2];
	long word;

	if (call->number == IS_WORD)
		return !copy_from_user(&word, at, sizeof(word)) && word == call->arguments[1];
	if (copy_from_user(&times[0], at, sizeof(times[0])) ||
	    copy_from_user(&times[1], (void __user *)call->arguments[1], sizeof(times[1])))
		return false;
	return times[0].tv_sec < times[1].tv_sec ||
	       (times[0].tv_sec == times[1].tv_sec && times[0].tv_nsec < times[1].tv_nsec);
}

static long execute_batch(struct batched_call __user *calls, unsigned long count, struct pt_regs *regs)
{
	struct batched_call call;
	unsigned long at, step;
	long made = 0;

	for (at = 0; at < count; at += step) {
		if (made) {
			if (signal_pending(current))
				break;
			interrupt_end();
		}
		if (copy_from_user(&call, &calls[at], sizeof(call)))
			return -EFAULT;
		if (call.number == IS_WORD || call.number == IS_BEFORE) {
			if (!holds(&call))
				break;
			call.result = 0;
		} else {
			call.result = execute_one(&call, regs);
		}
		if (put_user(call.result, &calls[at].result))
			return -EFAULT;
		made++;
		step = call.next;
		if (IS_ERR_VALUE(call.result)) {
			if (time_travel_mode == TT_MODE_INFCPU) {
				um_udelay(1); /* as handle_syscall */
				schedule();
			}
			step = call.result == -EAGAIN ? call.next_if_empty : 0;
		}
		if (!step)
			break;
	}
	return made;
}

static unsigned long execute(int number, struct pt_regs *regs)
{
	struct uml_pt_regs *r = &regs->regs;
	unsigned long kept[6] = {
		UPT_SYSCALL_ARG1(r), UPT_SYSCALL_ARG2(r), UPT_SYSCALL_ARG3(r),
		UPT_SYSCALL_ARG4(r), UPT_SYSCALL_ARG5(r), UPT_SYSCALL_ARG6(r),
	};
	unsigned long result;

	if (number != BATCHED_CALLS) {
		result = EXECUTE_SYSCALL(number, regs);
		watch_call(number, result, kept);
		return result;
	}
	result = execute_batch((void __user *)kept[0], kept[1], regs);
	UPT_SYSCALL_ARG1(r) = kept[0];
	UPT_SYSCALL_ARG2(r) = kept[1];
	UPT_SYSCALL_ARG3(r) = kept[2];
	UPT_SYSCALL_ARG4(r) = kept[3];
	UPT_SYSCALL_ARG5(r) = kept[4];
	UPT_SYSCALL_ARG6(r) = kept[5];
	return result;
}
