"""The changes to a kernel's source: which lines of which files, in the releases that lasthop builds."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from lasthop.common.errors import InputError
from lasthop.engines.kernel.store import (
    CALLS,
    FILES,
    HEADERS,
    LOOKS,
    PROGRAMS,
    RANDOM,
    REGISTERS,
    STUB,
    VECTORS,
)

# The changes have been tried with these releases.
BUILT = ("6.1", "6.12", "7.2", "7.3")
# Warnings help no user, and the other steps take a tenth of the time, but hardly make guests faster.
_FLAGS = (
    "-O1 -w -Wno-all -Wno-extra -fno-asynchronous-unwind-tables -fno-cprop-registers -fno-forward-propagate "
    "-fno-if-conversion -fno-if-conversion2 -fno-tree-dse -fno-tree-pta -fno-tree-sink -fno-tree-slsr"
)
# Every compilation begins with this header. If a precompiled one lies beside it, the compiler takes that.
_FIRST = Path("include/linux/compiler-version.h")
# The precompiled headers must fit all files, so they are made without the names of any.
_PRECOMPILE = f"""
prepare: {_FIRST}.gch
{_FIRST}.gch: basename_flags =
{_FIRST}.gch: modname_flags =
{_FIRST}.gch: modfile_flags =
{_FIRST}.gch: {HEADERS.name} $(offsets-file) $(rq-offsets-file)
	@$(CC) $(c_flags) -x c-header -o $@ $< 2>/dev/null || true
"""


def change(tree: Path, hz: int) -> None:
    """Seed the kernel's random numbers, let it tick `hz` times a second, and allow calls to be made together.

    For programs of the user: offer open files of this machine as devices, and look at programs that compute.
    Raises `InputError` if the source lacks the lines that are to be changed.
    """
    user, kernel = tree / "arch" / "um" / "os-Linux", tree / "arch" / "um" / "kernel"
    _replace(tree / "arch" / "um" / "Kconfig", r"(?m)(?<=^config HZ\n\tint\n\tdefault )\d+", str(hz))
    _seed(user / "util.c")
    _end_trials(user / "start_up.c")
    _make_calls_together(kernel / "skas" / "syscall.c")
    _offer_files(kernel)
    process, stub = user / "skas" / "process.c", kernel / "skas" / "stub_exe.c"
    _look_at_programs(process)
    if stub.is_file():
        _watch_from_stub(process, stub)
    else:
        _replace(process, r"(?m)^(\tkill\(os_getpid\(\), SIGSTOP\);)", r"\tlet_be_watched(SIG_UNBLOCK);\n\1")
    _widen_registers(tree / "arch" / "x86" / "um" / "os-Linux" / "registers.c")
    _compile_fast(tree)


def _seed(util: Path) -> None:
    shutil.copy2(RANDOM, util.parent)
    _replace(util, r"\bgetrandom\(buf, len, flags\)", "seeded_random(buf, len, flags)")
    _replace(util, r"#include <os\.h>", f'#include <os.h>\n#include "{RANDOM.name}"')


def _end_trials(start_up: Path) -> None:
    """End the process on which a starting kernel tries ptrace if the kernel has been killed.

    Its parent may be another one before it asks for the signal.
    """
    ask = "prctl(PR_SET_PDEATHSIG, SIGKILL)"
    check = f"if (pid == 0 && ({ask} || getppid() != n))\n\t\t_exit(1);"
    _replace(start_up, r"(?m)^\tpid = fork\(\);$", f"\tn = os_getpid();\n\\g<0>\n\t{check}")
    _replace(start_up, r"#include <os\.h>", r"\g<0>\n#include <sys/prctl.h>")


def _make_calls_together(system_calls: Path) -> None:
    for part in (CALLS, LOOKS):
        shutil.copy2(part, system_calls.parent)
    argument = r"UPT_SYSCALL_ARG{}\(&regs->regs\)"
    arguments = r",\s*".join(argument.format(number) for number in range(1, 7))
    _replace(
        system_calls,
        # As of 6.12, and as of 7.2.
        r"\bEXECUTE_SYSCALL\(syscall, regs\)|\(\*sys_call_table\[syscall\]\)\(" + arguments + r"\)",
        "execute(syscall, regs)",
    )
    _replace(system_calls, r"#include <asm/delay\.h>", f'#include <asm/delay.h>\n#include "{CALLS.name}"')


def _offer_files(kernel: Path) -> None:
    shutil.copy2(FILES, kernel)
    _replace(
        kernel / "Makefile",
        r"(?m)^obj-y \+= load_file\.o$",
        f"obj-y += load_file.o {Path(FILES.name).stem}.o",
    )


def _look_at_programs(process: Path) -> None:
    for part in (PROGRAMS, VECTORS):
        shutil.copy2(part, process.parent)
    included = "\n".join(f'#include "{part.name}"' for part in (PROGRAMS, VECTORS))
    _replace(process, r"#include <linux/threads\.h>", f"#include <linux/threads.h>\n{included}")
    _replace(process, r"\bget_fp_registers\(pid, regs->fp\)", "fetch_vectors(pid, status, regs)")
    _replace(process, r"\bput_fp_registers\(pid, regs->fp\)", "set_vectors(pid, regs)")
    _replace(
        process, r"\(1 << SIGALRM\) \| \(1 << SIGWINCH\)", "(1 << SIGALRM) | (1 << SIGPROF) | (1 << SIGWINCH)"
    )
    _replace(process, r"\bsig = WSTOPSIG\(status\);", "sig = look_at_program(pid, WSTOPSIG(status), regs);")


def _watch_from_stub(process: Path, stub: Path) -> None:
    """Change releases in which a process begins with a program of its own, traced or stopped by seccomp."""
    shutil.copy2(STUB, stub.parent)
    _replace(process, r"(?m)^(\t/\* Raw execveat )", r"\tlet_be_watched(SIG_BLOCK);\n\n\1")
    _replace(
        process,
        r"(?m)^(\t\t\t)(/\* Fill in ORIG_RAX )",
        r"\1sig = look_at_program(mm_id->pid, sig, regs);\n\n\1\2",
    )
    _replace(
        process,
        r"\(wait_sigsys && data->signal == SIGALRM\)",
        "(wait_sigsys && (data->signal == SIGALRM || data->signal == SIGPROF))",
    )
    _replace(stub, r"#include <generated/asm-offsets\.h>", rf'\g<0>\n#include "{STUB.name}"')
    _replace(
        stub, r"(?m)^(\t\t)(res = stub_syscall4\(__NR_rt_sigaction, SIGTRAP,)", r"\1handle_watch(&sa);\n\1\2"
    )
    _replace(stub, r"(?m)^(\t\t)(if \(stub_syscall3\(__NR_seccomp,)", r"\1begin_watch();\n\1\2")
    _replace(stub, r"(?m)^(\t\t)(stub_syscall2\(__NR_kill, .*SIGSTOP\);)", r"\1begin_watch();\n\1\2")


def _widen_registers(registers: Path) -> None:
    # From 6.13 on, the kernel asks the host how much room it needs.
    if registers.is_file() and "FP_SIZE" in registers.read_text(encoding="utf-8"):
        shutil.copy2(REGISTERS, registers.parent)
        _replace(
            registers,
            r"\bptrace\(PTRACE_SETREGSET, pid, NT_X86_XSTATE, &iov\)",
            "set_all_registers(pid, NT_X86_XSTATE, &iov)",
        )
        _replace(
            registers, r"#include <registers\.h>", f'#include <registers.h>\n#include "{REGISTERS.name}"'
        )


def _compile_fast(tree: Path) -> None:
    """Let the compiler optimise less, and read the headers that nearly all files include only once.

    Half of its time was for these headers.
    """
    _replace(tree / "Makefile", r"(?m)^(KBUILD_CFLAGS\s*\+= )\$\(KCFLAGS\)$", rf"\1{_FLAGS}")
    # Folders of drivers that a guest has none of: make would enter three hundred.
    drivers = tree / "drivers" / "Makefile"
    folders = r"(?m)^obj-y\s*\+= (?!base/|char/|net/|tty/)\S.*/$"
    drivers.write_text(re.sub(folders, "", drivers.read_text(encoding="utf-8")), encoding="utf-8")
    shutil.copy2(HEADERS, tree)
    with (tree / "Kbuild").open("a", encoding="utf-8") as kbuild:
        kbuild.write(_PRECOMPILE)
    # A precompiled header that mentions a macro is of no use to files that define it. So these get other
    # names on the command line, and the usual names are pasted together where a file uses them.
    names = ("KBUILD_BASENAME", "KBUILD_MODNAME", "__KBUILD_MODNAME", "KBUILD_MODFILE")
    for name in names:
        _replace(tree / "scripts" / "Makefile.lib", f"-D{name}=", f"-DOWN_{name}=")
    with (tree / _FIRST).open("a", encoding="utf-8") as first:
        first.writelines(f"#define {name} __PASTE(OWN_, {name})\n" for name in names)
    # A few files cannot bear headers that they do not ask for. And nothing is built twice, so nobody asks
    # what a file depends on.
    _replace(
        tree / "scripts" / "Kbuild.include",
        r"(?ms)(?<=^cmd_and_fixdep =).*?(?=\n\n)",
        " $(cmd) $(if $(filter cc_o_c,$(1)),2>/dev/null || $(cmd_cc_o_c) -DPLAIN_HEADERS)",
    )


def _replace(file: Path, pattern: str, text: str) -> None:
    before = file.read_text(encoding="utf-8") if file.is_file() else ""
    after, count = re.subn(pattern, text, before)
    if count != 1:
        raise InputError(
            f"This kernel's {file.name} differs from those of the releases that lasthop builds: it has "
            f"'{pattern}' {count} times. Build one of these, {', '.join(BUILT[:-1])} or {BUILT[-1]}, with "
            f"--source {BUILT[-1]}, say."
        )
    file.write_text(after, encoding="utf-8")
