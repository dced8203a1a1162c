"""What a process tree costs: the driver, the JVM it starts and the workers that the JVM forks."""

import os
import subprocess
import sys
from contextlib import contextmanager

from bench import cpu

BURN_S = 0.3
BURN = f"import time\nwhile time.process_time() < {BURN_S}: pass\n"
THEN_WAIT = "print('burnt', flush=True); input()"


@contextmanager
def burnt(code):
    """A child that has burnt its CPU time and waits."""
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout.readline() == b"burnt\n"
        yield child.pid
        child.communicate(b"\n")


def test_what_a_child_costs_is_counted_unless_it_is_left_out():
    me = os.getpid()
    before = cpu.tree_s(me)
    with burnt(BURN + THEN_WAIT) as pid:
        assert pid in cpu.tree(me)
        assert cpu.tree_s(me) - before >= BURN_S - 0.05
        assert cpu.tree_s(pid) >= BURN_S - 0.05
        assert pid not in cpu.tree(me, without={pid})
        assert cpu.tree_s(me, without={pid}) - before < BURN_S


def test_what_a_dead_grandchild_cost_is_counted_once_it_was_waited_for():
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {BURN!r}]); {THEN_WAIT}"
    with burnt(code) as pid:
        assert BURN_S - 0.05 <= cpu.tree_s(pid) < 10 * BURN_S
