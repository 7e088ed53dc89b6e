/* What nearly all files of a kernel include: read once, and then kept as a precompiled header (changes.py). */

/* Naming PLAIN_HEADERS is enough: the compiler does not use this for a file that defines it. */
#ifndef PLAIN_HEADERS
#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/mm.h>
#include <linux/fs.h>
#include <linux/uaccess.h>
#include <linux/sched/signal.h>
#include <linux/proc_fs.h>
#include <linux/seq_file.h>
#include <linux/syscalls.h>
#include <linux/security.h>
#include <linux/netdevice.h>
#include <linux/interrupt.h>
#include <linux/pagemap.h>
#include <linux/rtnetlink.h>
#include <net/addrconf.h>
#include <net/inet_common.h>
#include <net/ip6_route.h>
#include <net/ipv6.h>
#include <net/udp.h>
#endif
