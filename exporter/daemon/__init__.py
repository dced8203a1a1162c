"""The composition root: config -> objects -> threads, apscheduler, signals. The only wiring."""

from __future__ import annotations

from exporter.daemon.edge import Edge
from exporter.daemon.run import run

__all__ = ["Edge", "run"]
