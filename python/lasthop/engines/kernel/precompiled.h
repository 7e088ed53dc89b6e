/* What nearly all files of a kernel include: read once, and then kept as a precompiled header (changes.py). */

/* Naming PLAIN_HEADERS is enough: the compiler does not use this for a file that defines it. */
#ifndef PLAIN_HEADERS
/* One of these headers wants the name of a file for a message, and has none yet. */
#undef KBUILD_MODNAME
#define KBUILD_MODNAME "net"
#include <linux/kernel.h>
#include <linux/filter.h>
#include <linux/fs.h>
#include <linux/inetdevice.h>
#include <linux/interrupt.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/netdevice.h>
#include <linux/pagemap.h>
#include <linux/proc_fs.h>
#include <linux/rtnetlink.h>
#include <linux/sched/signal.h>
#include <linux/security.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/syscalls.h>
#include <linux/uaccess.h>
#include <net/addrconf.h>
#include <net/inet_common.h>
#include <net/inet_hashtables.h>
#include <net/ip6_route.h>
#include <net/ip_fib.h>
#include <net/ipv6.h>
#include <net/pkt_cls.h>
#include <net/pkt_sched.h>
#include <net/tcp.h>
#include <net/transp_v6.h>
#include <net/udp.h>
#include <net/xfrm.h>
#undef KBUILD_MODNAME
#define KBUILD_MODNAME __PASTE(OWN_, KBUILD_MODNAME)
#endif
