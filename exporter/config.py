"""The shape of the YAML file. Strict: an unknown key is a mistake, and every mistake is reported
at once, each with its path. Environment enters in one way only: `${NAME}` inside a string.

Units are in the names: `_s` is seconds. Defaults that follow Connect's own rhythm assume its
default `offset.flush.interval.ms` of 60 s or less.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from exporter.errors import ConfigError

_PLACEHOLDER = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_QUOTED = re.compile(r"(['\"]).*\1", re.DOTALL)
_ADDRESS = r"^[^\s:,]+:\d{1,5}(,[^\s:,]+:\d{1,5})*$"
Name = Annotated[str, StringConstraints(min_length=1, max_length=100)]


class _Section(BaseModel):
    """`hide_input_in_errors`: a mistake beside a password must not print it."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, hide_input_in_errors=True, allow_inf_nan=False
    )


class Kafka(_Section):
    """A Kafka cluster: where it answers, and any librdkafka property for the clients."""

    bootstrap: Annotated[str, StringConstraints(pattern=_ADDRESS)]
    properties: dict[str, str] = Field(default_factory=dict, repr=False)

    @property
    def addresses(self) -> frozenset[str]:
        """The bootstrap servers, one by one."""
        return frozenset(self.bootstrap.split(","))

    def client_properties(self) -> dict[str, str]:
        """Properties for a librdkafka client."""
        return {**self.properties, "bootstrap.servers": self.bootstrap}


class Poll(_Section):
    """How often the Connect REST API is asked."""

    state_s: float = Field(default=10.0, ge=1.0)
    """Connectors and tasks: answered from a worker's memory, cheap."""
    offsets_s: float = Field(default=600.0, ge=10.0)
    """Source offsets, one connector at a time: makes the worker read its offsets topic to the end
    (all of
    it, under exactly-once). The tail is the source; this is a truth check."""
    groups_s: float = Field(default=10.0, ge=1.0)
    """Committed offsets of sink connectors, from the broker."""
    timeout_s: float = Field(default=10.0, ge=0.5)
    """One REST request."""


class Connect(_Section):
    """A Connect cluster, the Kafka cluster that holds its topics, and its REST address."""

    name: Name
    kafka: Name
    url: Annotated[str, StringConstraints(pattern=r"^https?://[^\s/@]+(:\d+)?(/.*)?$")]
    offsets_topic: str | None = None
    """Found by itself where exactly one compacted topic decodes to this cluster's connectors."""
    poll: Poll = Poll()


class Log(_Section):
    """Structured logs on standard error."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["json", "console"] = "json"


class Limits(_Section):
    """Bounds on what one process holds; what they cut is counted in series_dropped_total."""

    source_partitions_max: int = Field(default=100_000, ge=1)
    """Per Connect cluster. MM2's checkpoint connector alone writes groups x partitions of them."""


class History(_Section):
    """The Spark pipeline: where its tables are and how often it runs."""

    path: str = "history"
    """A folder, relative to where the command is started."""
    cadence_s: float = Field(default=60.0, ge=1.0)
    """With --continuous. Every batch costs about a second of CPU, however small."""
    max_offsets_per_trigger: int = Field(default=500_000, ge=1)
    """Bounds a batch's memory: half a million records fit a 1 GB heap."""
    heap: Annotated[str, StringConstraints(pattern=r"^\d+[mg]$")] = "1g"
    master: str = "local[2]"
    """Spark's master; spark-submit's own wins."""


class Config(_Section):
    """The whole file."""

    kafka: dict[Name, Kafka] = Field(min_length=1)
    connect: list[Connect] = Field(min_length=1)
    listen: Annotated[str, StringConstraints(pattern=r"^\S+:\d{1,5}$")] = "127.0.0.1:9640"
    tick_s: float = Field(default=1.0, ge=0.05)
    """How often a new snapshot is published: the most that the edge adds to a commit's age."""
    ends_s: float = Field(default=5.0, ge=0.5)
    """How often log ends are asked for: one batched request per Kafka cluster."""
    log: Log = Log()
    limits: Limits = Limits()
    history: History = History()


def load(path: Path, environment: Mapping[str, str] | None = None) -> Config:
    """Read a file. Raises ConfigError with every mistake in it."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        raise ConfigError((f"{path}: cannot be read: {exc}",)) from exc
    try:
        document = yaml.load(text, _Loader)  # noqa: S506 - a SafeLoader
    except yaml.YAMLError as exc:
        raise ConfigError((f"{path}: not YAML: {_yaml_problem(exc)}",)) from None
    return parse(document, os.environ if environment is None else environment, source=path.name)


class _Loader(yaml.SafeLoader):
    """A key given twice is a mistake; PyYAML would quietly take the last."""

    def construct_mapping(
        self,
        node: yaml.MappingNode,
        deep: bool = False,  # noqa: FBT001, FBT002 - PyYAML's own signature
    ) -> dict[Any, Any]:
        """See the class."""
        names: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            if key.value in names:
                raise yaml.MarkedYAMLError(
                    problem=f"the key {key.value} is given twice", problem_mark=key.start_mark
                )
            names.add(key.value)
        return super().construct_mapping(node, deep)


def _yaml_problem(error: yaml.YAMLError) -> str:
    """Where and what, without the text around it that PyYAML quotes: it may hold a password."""
    mark = getattr(error, "problem_mark", None)
    if mark is None:
        return "it holds characters that YAML does not allow"
    what = _QUOTED.sub("...", str(getattr(error, "problem", None) or "cannot be parsed"))
    return f"line {mark.line + 1}, column {mark.column + 1}: {what}"


def parse(document: object, environment: Mapping[str, str], *, source: str = "config") -> Config:
    """Check a parsed document. Raises ConfigError with every mistake in it."""
    if not isinstance(document, dict):
        raise ConfigError((f"{source}: expected a mapping at the top level",))
    mistakes: list[str] = []
    filled = _fill(document, environment, "", mistakes)
    config: Config | None = None
    try:
        config = Config.model_validate(filled)
    except ValidationError as exc:
        mistakes.extend(_mistake(dict(error)) for error in exc.errors())
    mistakes.extend(_cross_checks(filled))
    if config is None or mistakes:
        raise ConfigError(tuple(f"{source}: {mistake}" for mistake in mistakes))
    return config


def _fill(value: Any, environment: Mapping[str, str], path: str, mistakes: list[str]) -> Any:
    """Replace `${NAME}` in every string; a missing name is a mistake."""
    if isinstance(value, dict):
        return {
            key: _fill(item, environment, f"{path}.{key}" if path else str(key), mistakes)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [
            _fill(item, environment, f"{path}[{number}]", mistakes)
            for number, item in enumerate(value)
        ]
    if not isinstance(value, str):
        return value

    def replace(match: re.Match[str]) -> str:
        name = match.group(1)
        if name not in environment:
            mistakes.append(f"{path}: environment variable {name} is not set")
            return match.group(0)
        return environment[name]

    return _PLACEHOLDER.sub(replace, value)


def _mistake(error: dict[str, Any]) -> str:
    """One line: the path, what is wrong, and a suggestion where there is a near name."""
    location = tuple(part for part in error["loc"] if part != "[key]")
    path = _path(location)
    if error["type"] != "extra_forbidden":
        return f"{path}: {error['msg'][0].lower()}{error['msg'][1:]}"
    known = tuple(_section_at(location[:-1]).model_fields)
    near = difflib.get_close_matches(str(location[-1]), known, n=1)
    hint = f', did you mean "{near[0]}"?' if near else f" (known: {', '.join(known)})"
    return f"{path}: unknown key{hint}"


def _path(location: tuple[str | int, ...]) -> str:
    text = ""
    for part in location:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text or "(top level)"


def _section_at(location: tuple[str | int, ...]) -> type[_Section]:
    """The section that a location lies in, for the names it knows."""
    match location:
        case ("kafka", _, *_):
            return Kafka
        case ("connect", _, "poll", *_):
            return Poll
        case ("connect", _, *_):
            return Connect
        case ("log", *_):
            return Log
        case ("limits", *_):
            return Limits
        case ("history", *_):
            return History
        case _:
            return Config


def _cross_checks(document: dict[str, Any]) -> list[str]:
    """What one section cannot know of another. Works on the raw document, so that these mistakes
    are
    reported together with those of shape.
    """
    mistakes: list[str] = []
    kafkas, connects = document.get("kafka"), document.get("connect")
    names = tuple(str(name) for name in kafkas) if isinstance(kafkas, dict) else ()
    seen: set[str] = set()
    for number, connect in enumerate(connects if isinstance(connects, list) else ()):
        if not isinstance(connect, dict):
            continue
        kafka, name = connect.get("kafka"), connect.get("name")
        if isinstance(kafka, str) and kafka not in names:
            near = difflib.get_close_matches(kafka, names, n=1)
            hint = f', did you mean "{near[0]}"?' if near else f" (known: {', '.join(names)})"
            mistakes.append(f'connect[{number}].kafka: no cluster "{kafka}" under kafka{hint}')
        if isinstance(name, str) and name in seen:
            mistakes.append(f'connect[{number}].name: "{name}" is used twice')
        seen.add(str(name))
    for cluster in names:
        section = kafkas[cluster] if isinstance(kafkas, dict) and cluster in kafkas else None
        properties = section.get("properties") if isinstance(section, dict) else None
        if isinstance(properties, dict) and "bootstrap.servers" in properties:
            mistakes.append(f'kafka.{cluster}.properties: use "bootstrap", not bootstrap.servers')
    return mistakes
