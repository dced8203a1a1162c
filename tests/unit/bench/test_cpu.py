"""What a process tree costs: the driver, the JVM it starts and the workers that the JVM forks."""

import subprocess
import sys
from contextlib import contextmanager

import pytest

from bench import cpu

BURN_S = 0.3
BURN = f"import time\nwhile time.process_time() < {BURN_S}: pass\n"
WAIT = "print('idle', flush=True); input()"
PARENT = f"""
import subprocess, sys
command = [sys.executable, "-c", {BURN + WAIT!r}]
pipe = subprocess.PIPE
with subprocess.Popen(command, stdin=pipe, stdout=pipe) as child:
    child.stdout.readline()
    print(child.pid, flush=True)
    input()
    child.communicate(b"\\n")
"""


@contextmanager
def idle_child(code):
    """A child that waits after its code, with the line that it printed."""
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        line = child.stdout.readline().decode().strip()
        yield child.pid, line
        child.communicate(b"\n")


def test_what_a_child_costs_is_counted_unless_it_is_left_out():
    # Both are idle while they are read, so that their numbers stand still and add up exactly.
    with idle_child(PARENT) as (parent, line):
        child = int(line)
        assert cpu.tree(parent) == {parent, child}
        assert cpu.tree(parent, without={child}) == {parent}
        assert cpu.tree_s(child) >= BURN_S - 0.05
        alone = cpu.tree_s(parent, without={child})
        assert cpu.tree_s(parent) == pytest.approx(alone + cpu.tree_s(child))


def test_what_a_dead_grandchild_cost_is_counted_once_it_was_waited_for():
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {BURN!r}]); {WAIT}"
    with idle_child(code) as (pid, _):
        assert BURN_S - 0.05 <= cpu.tree_s(pid) < 10 * BURN_S
