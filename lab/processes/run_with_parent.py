"""
Runs a command that cannot outlive the process that asked for it.

child.py starts this file as a script, with the plain interpreter, in front of every java: `python
run_with_parent.py PARENT_PID COMMAND ...`. It asks the kernel for SIGKILL when the parent goes,
then becomes the command; the wish survives exec. It is a program of its own and not a preexec_fn,
because Python code between fork and exec can deadlock in a parent that has threads, and a lab's
parent has librdkafka's.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    """Tie this process to its parent, then become the command."""
    parent_pid = int(sys.argv[1])
    if ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        sys.exit("prctl(PR_SET_PDEATHSIG) failed; refusing to run untethered")
    # The parent may have died before the wish was heard; then nobody will ever send the signal.
    if os.getppid() != parent_pid:
        sys.exit("the parent is gone already")
    os.execvp(sys.argv[2], sys.argv[2:])


if __name__ == "__main__":
    main()
