"""
A wall clock that the lab sets, for one process and what it starts: everybody else keeps theirs.

It takes a C compiler, as what reads clocks is C for the most part; what was compiled is kept
nowhere but in the folder that is given.
"""

import shutil
import struct
import subprocess
from pathlib import Path

from lab.errors import LabError

SOURCE = Path(__file__).with_name("wall_clock.c")
COMPILE_S_MAX = 60.0
_STEP = struct.Struct("=q")


class WallClock:
    """
    See the module. `before` is what a command is to be begun with.

    Only the wall clock is set: time that goes on by itself does so, as after a step of a real one.
    """

    def __init__(self, directory: Path) -> None:
        self._file = directory / "wall-clock.step"
        self._library = directory / "wall-clock.so"
        self.set(0.0)
        self._compile()

    @property
    def before(self) -> tuple[str, ...]:
        """A command that becomes the one it is given."""
        return ("env", f"LD_PRELOAD={self._library}", f"LAB_CLOCK_FILE={self._file}")

    def set(self, ahead_s: float) -> None:
        """So far before our clock, or behind it if negative, from now on."""
        with self._file.open("r+b" if self._file.exists() else "wb") as handle:
            handle.write(_STEP.pack(round(ahead_s * 1e9)))

    def _compile(self) -> None:
        compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
        if compiler is None:
            raise LabError("a clock to be set takes a C compiler: apt-get install gcc")
        command = (compiler, "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-pthread")
        built = (*command, "-o", str(self._library), str(SOURCE))
        done = subprocess.run(
            built, capture_output=True, text=True, check=False, timeout=COMPILE_S_MAX
        )
        if done.returncode != 0:
            raise LabError(f"{SOURCE.name} was not compiled:\n{done.stderr[-2000:]}")
