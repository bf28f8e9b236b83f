"""Memory that the process keeps for its next use, instead of giving it back to the system."""

import contextlib
import ctypes
import sys

TRIM_THRESHOLD, MMAP_THRESHOLD, ARENA_MAX = -1, -3, -8
"""Parameters of glibc's `mallopt`: which memory goes back to the system, and how many pools threads have of it."""
LARGEST = 2**31 - 1


def keep_freed_memory(*, in_one_pool: bool = False) -> None:
    """Let the process keep what it frees, until it ends.

    Every step of a training frees tensors of megabytes and allocates the next ones. glibc gives such memory back
    to Linux, which then clears and maps every page anew. (Measured: 1,500 to 2,600 page faults a step, and up to
    58,000 for the class means of a network; without them these take 0.85 and 0.75 of their time.)

    Each thread keeps its own, so its next tensors lie where its core's cache has them: networks that are trained
    side by side take 0.85 to 0.95 of the time that they take in one pool. But what one thread has freed serves no
    other then: DM on a tenth of MiniUCF takes 732 MiB, and 443 in one pool.

    This is for programs, as `prism` is one: a library must not decide it for the process that imports it. With
    another C library nothing happens.

    Args:
        in_one_pool: all threads share what is kept. To be said before there is a second thread.
    """
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            mallopt = ctypes.CDLL(None).mallopt
            mallopt(MMAP_THRESHOLD, LARGEST)
            mallopt(TRIM_THRESHOLD, LARGEST)
            if in_one_pool:
                mallopt(ARENA_MAX, 1)


def give_back_freed_memory() -> None:
    """Give the system what the process keeps, where what is free is about to be asked for.

    Otherwise the second verb of a process is refused for memory that the first one has freed.
    """
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).malloc_trim(0)
