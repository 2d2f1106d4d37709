"""A wall clock that tests set while a process runs: what asks libc for the time of day is told another one."""

import shutil
import struct
import subprocess
from mmap import mmap
from pathlib import Path

_SOURCE = """
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
static volatile long long *offset;
__attribute__((constructor)) static void begin(void) {
    const char *name = getenv("SHIFTED_CLOCK");
    int fd = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;
    void *at = fd < 0 ? MAP_FAILED : mmap(0, 8, PROT_READ, MAP_SHARED, fd, 0);
    if (at != MAP_FAILED) offset = at;
}
int clock_gettime(clockid_t id, struct timespec *now) {
    int failed = syscall(SYS_clock_gettime, id, now);
    if (!failed && offset && id == CLOCK_REALTIME) now->tv_sec += *offset;
    return failed;
}
"""


class NoCompiler(RuntimeError):
    """The machine can't build it."""


class ShiftedClock:
    """The clock of each process that gets :attr:`env`; monotonic time goes on as ever."""

    def __init__(self, folder: Path) -> None:
        compiler = shutil.which("cc") or shutil.which("gcc")
        if compiler is None:
            raise NoCompiler("no C compiler")
        source, library, offset = folder / "shifted.c", folder / "shifted.so", folder / "offset"
        source.write_text(_SOURCE)
        subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(source)], check=True)
        offset.write_bytes(bytes(8))
        with offset.open("r+b") as file:
            self._map = mmap(file.fileno(), 8)
        self.env = {"LD_PRELOAD": str(library), "SHIFTED_CLOCK": str(offset)}

    def shift(self, seconds: int) -> None:
        """Set how far the clock is ahead of the true one, from now on."""
        self._map[:] = struct.pack("q", seconds)
