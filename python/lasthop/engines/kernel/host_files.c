/*
 * The files that whoever started the guest has left open, as devices: the one with number N is the host's file N. While a
 * call waits for the host the guest's clock stands still, so neither a slow writer nor a slow reader has a place in virtual
 * time, and no interrupt tells when the host was ready.
 */
#include <linux/cdev.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/init.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/timekeeping.h>
#include <linux/tty.h>
#include <linux/uaccess.h>
#include <os.h>

/* Of those for local use. */
#define HOST_FILES_MAJOR 240
#define HOST_FILES "host"
/* Waits for input, so many milliseconds of the host's time at most; 1 if there is some. */
#define HOST_FILES_WAIT 0x6c01
/* Whether a program of the guest's waits for input from a terminal, whose file is the argument. */
#define HOST_FILES_AWAITED 0x6c02

/* In programs.h; and what that asks of the kernel, below. */
int wait_for_host(int file, int writes, int milliseconds);
int window_of_host(int file, void *size);
unsigned long long guest_nanoseconds(void);
int code_of_program(unsigned long address, void *code, int length);
void tell_of_spinning(unsigned int seconds);

/* Whether a call that came to nothing is to be made again. */
static bool is_worth_another(int file, int writes, int result)
{
	if (result == -EAGAIN)
		wait_for_host(file, writes, -1);
	else if (result != -EINTR)
		return false;
	/* The host's signal may have been an interrupt that woke another process. */
	cond_resched();
	return !signal_pending(current);
}

static ssize_t read_host(struct file *file, char __user *to, size_t count, loff_t *at)
{
	int number = iminor(file_inode(file)), got;
	char *buffer = (char *)__get_free_page(GFP_KERNEL);

	if (!buffer)
		return -ENOMEM;
	count = min_t(size_t, count, PAGE_SIZE);
	do
		got = os_read_file(number, buffer, count);
	while (is_worth_another(number, 0, got));
	if (got > 0 && copy_to_user(to, buffer, got))
		got = -EFAULT;
	free_page((unsigned long)buffer);
	return got == -EINTR || got == -EAGAIN ? -ERESTARTSYS : got;
}

static ssize_t write_host(struct file *file, const char __user *from, size_t count, loff_t *at)
{
	int number = iminor(file_inode(file)), done;
	char *buffer = (char *)__get_free_page(GFP_KERNEL);

	if (!buffer)
		return -ENOMEM;
	count = min_t(size_t, count, PAGE_SIZE);
	if (copy_from_user(buffer, from, count)) {
		free_page((unsigned long)buffer);
		return -EFAULT;
	}
	do
		done = os_write_file(number, buffer, count);
	while (is_worth_another(number, 1, done));
	free_page((unsigned long)buffer);
	if (done == -EPIPE)
		send_sig(SIGPIPE, current, 0);
	return done == -EINTR || done == -EAGAIN ? -ERESTARTSYS : done;
}

/* Readers of a terminal and those who poll it wait in the same queue. */
static long is_awaited(unsigned int descriptor)
{
	struct file *file = fget(descriptor);
	long awaited = -ENOTTY;

	if (!file)
		return -EBADF;
	if (S_ISCHR(file_inode(file)->i_mode) && imajor(file_inode(file)) == UNIX98_PTY_SLAVE_MAJOR)
		awaited = waitqueue_active(&((struct tty_file_private *)file->private_data)->tty->read_wait);
	fput(file);
	return awaited;
}

/* The size of the window that a file of the host's is, if it is a terminal. */
static long tell_window(int number, void __user *to)
{
	struct winsize size;
	int failed = window_of_host(number, &size);

	if (failed)
		return failed;
	return copy_to_user(to, &size, sizeof(size)) ? -EFAULT : 0;
}

static long control_host(struct file *file, unsigned int request, unsigned long argument)
{
	int number = iminor(file_inode(file));

	switch (request) {
	case HOST_FILES_WAIT:
		return wait_for_host(number, 0, argument);
	case HOST_FILES_AWAITED:
		return is_awaited(argument);
	case TIOCGWINSZ:
		return tell_window(number, (void __user *)argument);
	default:
		return -ENOTTY;
	}
}

static const struct file_operations host_files = {
	.read = read_host,
	.write = write_host,
	.unlocked_ioctl = control_host,
	.llseek = noop_llseek,
};

static int __init provide_host_files(void)
{
	return register_chrdev(HOST_FILES_MAJOR, HOST_FILES, &host_files);
}
device_initcall(provide_host_files);

unsigned long long guest_nanoseconds(void)
{
	return ktime_get_ns();
}

/* Reads the current program's instructions; says how many bytes it got. */
int code_of_program(unsigned long address, void *code, int length)
{
	return length - copy_from_user(code, (void __user *)address, length);
}

void tell_of_spinning(unsigned int seconds)
{
	os_warn("lasthop: %s (process %d) has computed for %u s without a system call\n", current->comm,
		task_tgid_vnr(current), seconds);
}
