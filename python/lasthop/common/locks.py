"""Locks on open files, which end with the process that holds them."""

import os
import sys

if sys.platform == "win32":
    import msvcrt

    # Other processes cannot read a locked byte, so it is one that no file has.
    _BYTE = 1 << 30

    def try_lock(descriptor: int) -> bool:
        """Lock a file that is open for writing; return false if another process has locked it."""
        os.lseek(descriptor, _BYTE, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except PermissionError:
            return False
        finally:
            os.lseek(descriptor, 0, os.SEEK_SET)
        return True

else:
    import fcntl

    def try_lock(descriptor: int) -> bool:
        """Lock a file that is open for writing; return false if another process has locked it."""
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
