"""promtool and prometheus, whichever this machine has, and the checks we ask of promtool. Rules and
their tests keep to what 2.42 understands, so that no Prometheus has to be new for them. Must not
name a registry: where packages come from is for the machine's own apt settings to say.
"""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tools.debian import package, run

PACKAGE = "prometheus"
HINT = "install Prometheus 2.42 or newer and put promtool and prometheus on the PATH"


@dataclass(frozen=True, slots=True)
class Binaries:
    """Where the two programs are."""

    promtool: Path
    prometheus: Path


def binaries() -> Binaries:
    """From the PATH, else from the cache, where Debian's package is put at first use."""
    on_path = {name: shutil.which(name) for name in ("promtool", "prometheus")}
    if not all(on_path.values()):
        folder = package(PACKAGE, HINT) / "usr" / "bin"
        on_path = {name: result or str(folder / name) for name, result in on_path.items()}
    return Binaries(
        promtool=Path(str(on_path["promtool"])), prometheus=Path(str(on_path["prometheus"]))
    )


def promtool() -> Path:
    """The one that checks need most."""
    result = shutil.which("promtool")
    return Path(result) if result else binaries().promtool


def check_metrics(text: str) -> list[str]:
    """What promtool finds wrong with the text of a scrape (format 0.0.4); empty if nothing."""
    done = run([str(promtool()), "check", "metrics"], stdin=text)
    return _problems(done)


def check_rules(*files: Path) -> list[str]:
    """What promtool's linter finds in rule files."""
    command = [str(promtool()), "check", "rules", "--lint=all", "--lint-fatal"]
    return _problems(run([*command, *map(str, files)]))


def check_web_config(*files: Path) -> list[str]:
    """What promtool finds wrong with web config files, and with what they name."""
    return _problems(run([str(promtool()), "check", "web-config", *map(str, files)]))


def run_rule_tests(*files: Path) -> list[str]:
    """What `promtool test rules` says of test files that do not pass."""
    return _problems(run([str(promtool()), "test", "rules", *map(str, files)]))


def _problems(done: subprocess.CompletedProcess[str]) -> list[str]:
    """What it printed, if it found something. Silence with a bad exit code is a finding too."""
    if done.returncode == 0:
        return []
    lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    return lines or [f"promtool ended with {done.returncode} and said nothing"]


if __name__ == "__main__":
    print(binaries())  # noqa: T201 - a command's output
