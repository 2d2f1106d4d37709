"""Giving way: every thread, and what was started before."""

import os
import subprocess
import sys

_PROGRAM = """
import os, subprocess, threading
from delta_store.settling.give_way import give_way
ended = threading.Event()
thread = threading.Thread(target=ended.wait)
thread.start()
with subprocess.Popen(["sleep", "60"]) as child:
    for wanted in (7, 3):
        give_way(wanted)
        print(*(os.getpriority(os.PRIO_PROCESS, one) for one in (0, thread.native_id, child.pid)))
    child.kill()
ended.set()
"""


def test_threads_and_children_that_run_already_give_way_too() -> None:
    """A niceness given to the process alone would leave a JVM and its threads as they are; none is ever raised."""
    ran = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, timeout=30, check=True)
    assert ran.stdout.split() == ["7"] * 6


_LAGGING = """
import os
from delta_store.settling.give_way import Niceness
niceness = Niceness(7)
for lag in (1, 4.9, 5, 3, 2.4, 4):
    print(niceness.follow(lag), os.getpriority(os.PRIO_PROCESS, 0))
"""


def test_a_job_that_lags_gives_way_to_nobody_where_it_may() -> None:
    """Only root may lower a niceness."""
    ran = subprocess.run([sys.executable, "-c", _LAGGING], capture_output=True, text=True, timeout=30, check=True)
    hurried, at_rest = (str(os.getpriority(os.PRIO_PROCESS, 0)) if os.geteuid() == 0 else "7"), "7"
    keeps, lags = ("False", at_rest), ("True", hurried)
    assert [tuple(line.split()) for line in ran.stdout.splitlines()] == [keeps, keeps, lags, lags, keeps, keeps]
