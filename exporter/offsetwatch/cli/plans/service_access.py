"""How remedy's desk is reached: on the daemon's host by its journal, from elsewhere by its control
listener. The same nouns either way.
"""

from __future__ import annotations

import os
import pwd
import shlex
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from offsetwatch import config
from offsetwatch.cli.offsets import execute
from offsetwatch.cli.remote.control_client import Listener
from offsetwatch.cli.remote.service import RemoteDesk
from offsetwatch.clock import SystemClock
from offsetwatch.config import Config, Remedy
from offsetwatch.errors import ConfigError
from offsetwatch.remedy.model.service_api import Asked, Mode, NotFound, PeopleDesk, Refused
from offsetwatch.remedy.service import Office, Planned, World

_LOGIN: Final = Path("/proc/self/loginuid")
_NOBODY: Final = 2**32 - 1  # where nobody has logged in


@dataclass(frozen=True, slots=True)
class Access:
    """What the options say."""

    config_path: Path | None = None
    state_dir: Path | None = None
    listener: Listener | None = None

    @property
    def options(self) -> str:
        """To be added to a command that is to reach the same."""
        at = self.listener
        named: tuple[tuple[str, object], ...]
        if at is None:
            folder = None if self.config_path is None and self.state_dir is None else self.folder
            named = (("--config", self.config_path), ("--state-dir", folder))
        else:
            named = (
                ("--url", at.url),
                ("--token-file", at.token_file),
                ("--ca-file", at.ca_file),
                ("--cert-file", at.cert_file),
                ("--key-file", at.key_file),
            )
        given = ((option, str(value)) for option, value in named if value is not None)
        return shlex.join(word for pair in given for word in pair)

    @property
    def loaded(self) -> Config | None:
        """The configuration, if one was named. Raises ConfigError."""
        return None if self.config_path is None else config.load(self.config_path)

    @property
    def folder(self) -> Path:
        """Of journal and backups, on this host."""
        return execute.state_folder(self.state_dir, self.loaded)


class At(NamedTuple):
    """A desk, and who stands at it.

    by          who asks, on this host; elsewhere the listener knows
    options     see Access
    office      the desk itself where it is the journal of this host
    """

    desk: PeopleDesk
    by: str
    options: str
    office: Office | None = None


@contextmanager
def at_desk(access: Access, world: World | None = None) -> Iterator[At]:
    """The desk that the options name. `world` is what plans are made of, for a verb that wants one.
    Raises ConfigError where there is no journal: whoever decides in another one decides nothing.
    """
    if access.listener is not None:
        with closing(RemoteDesk(access.listener)) as remote:
            yield At(remote, "", access.options)
        return
    execute.journal_folder(access.folder)
    loaded = access.loaded
    remedy = Remedy() if loaded is None else loaded.remedy
    office = Office(
        access.folder,
        world or _nobody(),
        SystemClock(),
        mode=Mode(remedy.mode),
        second_person=remedy.second_person,
        cool_down_s=remedy.cool_down_s,
    )
    with closing(office):
        yield At(office, person(), access.options, office)


def _nobody() -> World:
    """A person's process has no thread to wake and no picture of the connectors: the daemon, which
    reads the same journal, has both.
    """

    def plan_for(asked: Asked, by: str) -> Planned | Refused | NotFound:
        del asked, by
        raise ConfigError(("--config: a plan cannot be made without it",))

    return World(plan_for=plan_for, wake=lambda _hint: None, inventory=frozenset)


def person() -> str:
    """Who is at the keyboard: whoever has logged in, also once they have become another user, so
    that two people who share one are two all the same; else the user that this process is of.
    """
    number = os.getuid()
    try:
        login = int(_LOGIN.read_text())
    except (OSError, ValueError):
        login = _NOBODY
    if login != _NOBODY:
        number = login
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)  # a container's user need not have a name
