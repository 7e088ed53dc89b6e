/*
 * One more system call: it makes others, in order, up to the first that fails, and returns how many it has made. A call may
 * say that others follow it: if it succeeds, or if there is nothing to be had yet (EAGAIN). To enter the guest kernel costs
 * far more than most calls do. In virtual time it makes no difference: between two calls happens what always happens there,
 * and a failure takes its time.
 */
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/uaccess.h>
#include "looks.h"

/* No architecture has a call of this number. */
#define BATCHED_CALLS 400

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
		call.result = execute_one(&call, regs);
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
		slow_down_looks(number, result);
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
