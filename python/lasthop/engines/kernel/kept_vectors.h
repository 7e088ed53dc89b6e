/*
 * A program that makes calls together (batched_calls.h) does so by a function of C, and nobody relies on vector registers
 * behind one. So they stay in its process as they are: to fetch and set them is an eighth of the host's work for a guest.
 */
#define BATCHED_CALLS 400

static int fetch_vectors(int pid, int status, struct uml_pt_regs *regs)
{
	if (WIFSTOPPED(status) && WSTOPSIG(status) == (SIGTRAP | 0x80) && PT_SYSCALL_NR(regs->gp) == BATCHED_CALLS)
		return 0;
	return get_fp_registers(pid, regs->fp);
}

static int set_vectors(int pid, struct uml_pt_regs *regs)
{
	return UPT_SYSCALL_NR(regs) == BATCHED_CALLS ? 0 : put_fp_registers(pid, regs->fp);
}
