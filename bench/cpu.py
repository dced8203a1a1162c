"""CPU-seconds of a process and all that it has started, from /proc: Spark is three kinds of them.

A driver in Python, a JVM, and Python workers that the JVM forks; only the whole tree says what a
job costs.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def tree(root: int, *, without: Collection[int] = ()) -> frozenset[int]:
    """The pids of a process and its descendants; those in `without` are left out with theirs."""
    children: dict[int, list[int]] = {}
    for pid, fields in _stats().items():
        children.setdefault(int(fields[1]), []).append(pid)
    names: set[int] = set()
    waiting = [root]
    while waiting:
        pid = waiting.pop()
        if pid not in without:
            names.add(pid)
            waiting += children.get(pid, [])
    return frozenset(names)


def tree_s(root: int, *, without: Collection[int] = ()) -> float:
    """CPU-seconds of that tree so far, with those of its dead that somebody has waited for."""
    stats = _stats()
    ticks = 0
    for pid in tree(root, without=without) & stats.keys():
        ticks += sum(int(field) for field in stats[pid][11:15])
    return ticks / _TICKS_PER_S


def _stats() -> dict[int, list[str]]:
    """By pid: the fields of /proc/PID/stat that follow the command's name (proc_pid_stat(5))."""
    results = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = path.read_text()
        except OSError:
            continue  # it has ended since
        results[int(path.parent.name)] = text.rpartition(")")[2].split()
    return results
