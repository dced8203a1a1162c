"""Verbs as somebody types them where a Bureau's journal is."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner, Result

from offsetwatch.cli import cli
from tests.unit.remedy.services import ServiceBench


def configure(folder: Path) -> None:
    """For a Bureau in the folder `state` of this one."""
    (folder / "offsetwatch.yaml").write_text(
        'kafka: {k: {bootstrap: "127.0.0.1:1"}}\n'
        'connect: [{name: lab, kafka: k, url: "http://127.0.0.1:1"}]\n'
        "remedy: {mode: propose}\n"
        f"state_dir: {folder / 'state'}\n"
    )


def typed(*arguments: str, bureau: ServiceBench) -> Result:
    """What the verb says and ends with; raises what it did not expect itself."""
    config = str(bureau.folder.parent / "offsetwatch.yaml")
    result = CliRunner().invoke(cli, [*arguments, "--config", config])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result
