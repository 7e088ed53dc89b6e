/*
 * Gives a guest's process all its registers back. Up to Linux 6.12, User-Mode Linux keeps 2696 bytes of them, which end
 * with AVX-512 and protection keys. A processor with AMX has 11008, and the host takes all or nothing (xstateregs_set
 * in arch/x86/kernel/fpu/regset.c). No guest has used AMX, as a process must ask for it first: zeros will do.
 */
#include <string.h>

static long set_all_registers(int pid, int type, const struct iovec *kept)
{
	static unsigned char all[16384];
	/* The host takes no more of it than it has registers. */
	struct iovec iov = { .iov_base = all, .iov_len = sizeof(all) };

	memcpy(all, kept->iov_base, kept->iov_len);
	return ptrace(PTRACE_SETREGSET, pid, type, &iov);
}
