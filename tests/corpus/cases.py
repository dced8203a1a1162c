"""Reads the corpus: README.md has its form."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from offsetwatch.remedy.classify import SKIPPABLE, Failure, FailureKind, classify

FOLDER = Path(__file__).parent / "traces"


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    trace: str
    truth: FailureKind
    says: FailureKind
    stage: str
    listed: frozenset[str]
    thread: str = ""
    restart: str = ""

    @property
    def is_poison(self) -> bool:
        return self.truth in SKIPPABLE

    def classified(self) -> Failure:
        failure = classify(self.trace, self.listed)
        assert failure is not None
        return failure


def _case(name: str, lines: list[str]) -> Case:
    marks = {}
    while lines and lines[0].startswith("# "):
        key, _, value = lines.pop(0).removeprefix("# ").partition(": ")
        marks[key] = value
    unknown = set(marks) - {
        *("truth", "says", "stage", "listed", "of", "ends", "from", "restart", "why"),
    }
    assert not unknown, (name, unknown)
    ends = marks.get("ends", "")
    assert ends in {"", "crlf", "cut"}, name
    trace = "".join(f"{line}\r\n" if ends == "crlf" else f"{line}\n" for line in lines)
    truth = FailureKind(marks["truth"])
    return Case(
        name=name,
        trace=trace[:-1] if ends == "cut" else trace,
        truth=truth,
        says=FailureKind(marks.get("says", truth)),
        stage=marks["stage"],
        listed=frozenset(marks.get("listed", "").split()),
        thread=marks.get("from", ""),
        restart=marks.get("restart", ""),
    )


def _cases(path: Path) -> list[Case]:
    # Not splitlines: messages hold characters that it would take for the end of a line.
    whole = path.read_bytes().decode().removeprefix("=== ").removesuffix("\n")
    results = []
    for part in whole.split("\n=== "):
        name, *lines = part.split("\n")
        results.append(_case(f"{path.stem}/{name}", lines))
    return results


CORPUS = tuple(case for path in sorted(FOLDER.glob("*.txt")) for case in _cases(path))
