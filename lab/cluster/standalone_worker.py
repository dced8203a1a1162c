"""Files and address of a standalone worker, known before it starts and while it is down."""

from dataclasses import dataclass
from pathlib import Path

from lab.processes.ports import LOOPBACK

STANDALONE = "standalone"


@dataclass(frozen=True, slots=True)
class Solo:
    """A standalone worker that works in this directory and listens on this port."""

    directory: Path
    port: int

    @property
    def url(self) -> str:
        """Its REST address; drive it with a ConnectApi of its own."""
        return f"http://{LOOPBACK}:{self.port}"

    @property
    def properties(self) -> Path:
        """The worker's own properties file."""
        return self.directory / f"{STANDALONE}.properties"

    @property
    def offsets(self) -> Path:
        """Its offsets file; there once it has committed any."""
        return self.directory / "standalone.offsets"

    @property
    def lines(self) -> Path:
        """The file `solo-source` reads."""
        return self.directory / "solo.in"

    @property
    def sink(self) -> Path:
        """The file `solo-sink` writes."""
        return self.directory / "solo.out"
