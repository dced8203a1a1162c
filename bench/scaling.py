"""What a fleet needs, reckoned from what was measured: docs/scaling.md's tables.

`python -m bench.scaling` writes the page's tables anew. Every constant is what a bench printed on
two cores, and says which; whoever measures anew changes it here. What is reckoned is linear in
what was measured, as the benches' growth is, and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Final

PAGE: Final = Path(__file__).parents[1] / "docs" / "scaling.md"
BEGIN, END = "<!-- reckoned: {} -->\n", "<!-- end -->"
MIB: Final = 2**20
DAY_S: Final = 86_400
SWEEP_EVERY_S: Final = 600  # connect[].poll.offsets_s


@dataclass(frozen=True, slots=True)
class Constant:
    """A figure, its unit, and what printed it."""

    value: float
    unit: str
    by: str


BASE = Constant(84, "MiB", "bench.edge, nothing to watch")
SOURCE_MEMORY = Constant(3.0, "KiB for each source partition", "bench.edge, 100,000 of them")
MIRRORED_MEMORY = Constant(
    14, "KiB for each replicated partition", "bench.edge, 10,000 of them, all else beside them"
)
MIRRORED_CORES = Constant(
    4.0, "millionths of a core for each replicated partition", "bench.edge, at rest, ends_s 5"
)
READING = Constant(600_000, "commits a second, one topic", "bench.cold_start")
SERIES = Constant(0.85, "microseconds of a first scrape for each series", "bench.render")
SERIES_EACH = Constant(28, "series for each partition", "bench.edge, 46,118 of 1,625")
SWEEP = Constant(
    1.5, "milliseconds of CPU for each connector", "bench.connect, as the worker of a sweep"
)
BACKFILL = Constant(340_000, "commits a second, two cores", "bench.history, 5 million")
STORED = Constant(11, "bytes for each commit, silver alone", "bench.moment, 100 million")
CONSTANTS: Final = (
    BASE,
    SOURCE_MEMORY,
    MIRRORED_MEMORY,
    MIRRORED_CORES,
    READING,
    SERIES,
    SERIES_EACH,
    SWEEP,
    BACKFILL,
    STORED,
)

# One process has one interpreter: what it does at rest may take half of that, or a burst waits.
CORES_MAX: Final = 0.5
SCRAPE_S_MAX: Final = 5.0  # half of Prometheus' own scrape_timeout of ten seconds


@dataclass(frozen=True, slots=True)
class Fleet:
    """What there is to watch. Commits are of a day."""

    connectors: int
    sources: int
    mirrored: int
    commits: int


TARGETS: Final = (
    Fleet(connectors=1_000, sources=10_000, mirrored=10_000, commits=10_000_000),
    Fleet(connectors=10_000, sources=900_000, mirrored=100_000, commits=1_000_000_000),
    Fleet(connectors=10_000, sources=0, mirrored=1_000_000, commits=1_000_000_000),
)


@dataclass(frozen=True, slots=True)
class Need:
    """Of all daemons together, and how many there are to be; then of the pipeline."""

    memory_mib: float
    rest_cores: float
    commits_cores: float
    sweep_cores: float
    first_scrape_s: float
    daemons: int
    backfill_s: float
    silver_bytes: float


def need(fleet: Fleet) -> Need:
    """What a fleet takes."""
    partitions = fleet.sources + fleet.mirrored
    rest = fleet.mirrored * MIRRORED_CORES.value / 1e6
    scrape_s = partitions * SERIES_EACH.value * SERIES.value / 1e6
    daemons = max(1, ceil(rest / CORES_MAX), ceil(scrape_s / SCRAPE_S_MAX))
    kib = fleet.sources * SOURCE_MEMORY.value + fleet.mirrored * MIRRORED_MEMORY.value
    return Need(
        memory_mib=daemons * BASE.value + kib / 1024,
        rest_cores=rest,
        commits_cores=fleet.commits / DAY_S / READING.value,
        sweep_cores=fleet.connectors * SWEEP.value / 1000 / SWEEP_EVERY_S,
        first_scrape_s=scrape_s / daemons,
        daemons=daemons,
        backfill_s=fleet.commits / BACKFILL.value,
        silver_bytes=fleet.commits * STORED.value,
    )


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(row) + " |" for row in (heads, ["---"] * len(heads), *rows)]
    return "\n".join(lines) + "\n"


def measured() -> str:
    """The constants."""
    return _table(
        ("measured", "of", "printed by"),
        [
            (
                f"{constant.value:,g}",
                constant.unit,
                f"`{constant.by.partition(',')[0]}`{_rest(constant.by)}",
            )
            for constant in CONSTANTS
        ],
    )


def _rest(by: str) -> str:
    _, comma, rest = by.partition(",")
    return comma + rest


def reckoned() -> str:
    """What the targets need."""
    needs = [need(fleet) for fleet in TARGETS]
    return _table(
        ("", *(f"{_count(target.connectors)} connectors" for target in TARGETS)),
        [
            ("source partitions", *(_count(target.sources) for target in TARGETS)),
            ("replicated partitions", *(_count(target.mirrored) for target in TARGETS)),
            ("commits a day", *(_count(target.commits) for target in TARGETS)),
            ("**daemons**", *(f"**{requirement.daemons}**" for requirement in needs)),
            (
                "memory of each",
                *(
                    f"{requirement.memory_mib / requirement.daemons:,.0f} MiB"
                    for requirement in needs
                ),
            ),
            (
                "CPU of each at rest",
                *(
                    f"{requirement.rest_cores / requirement.daemons:.2f} cores"
                    for requirement in needs
                ),
            ),
            (
                "CPU of all for the commits",
                *(f"{requirement.commits_cores:.3f} cores" for requirement in needs),
            ),
            (
                "CPU of all for the truth check",
                *(f"{requirement.sweep_cores:.3f} cores" for requirement in needs),
            ),
            (
                "first scrape of each",
                *(f"{requirement.first_scrape_s:.1f} s" for requirement in needs),
            ),
            (
                "a day into bronze again",
                *(f"{requirement.backfill_s / 60:.0f} min" for requirement in needs),
            ),
            (
                "silver, a day",
                *(f"{requirement.silver_bytes / 1e9:.1f} GB" for requirement in needs),
            ),
        ],
    )


def _count(number: int) -> str:
    return f"{number:,}"


def written(page: str) -> str:
    """The page with its tables made anew."""
    for name, table in (("measured", measured()), ("needed", reckoned())):
        head, begun, rest = page.partition(BEGIN.format(name))
        _, ended, tail = rest.partition(END)
        assert begun, name
        assert ended, name
        page = head + begun + "\n" + table + "\n" + ended + tail
    return page


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    print(reckoned())
