"""Single values of the YAML file: addresses, names, patterns, files. Called by shape.py.

No message repeats what stands in a file that a value names.
"""

from __future__ import annotations

import importlib
import ipaddress
import math
import re
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints, ValidationInfo
from pydantic_core import PydanticCustomError

from exporter.addresses import PORT_MAX, is_ipv6, parsed
from exporter.config import properties
from exporter.config.durations import DAY_S, FORMS, PlainNumber, parse_duration
from exporter.config.files import problem_with, read_private, read_secret, tokens_in

FOLDER: Final = "folder"  # of the configuration file, in the context of a validation
_PROTOCOL = re.compile(r"(?P<name>[A-Za-z_]+)://(?P<rest>.*)", re.DOTALL)
_URL = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<rest>.*)", re.DOTALL)
_LISTEN = re.compile(r"(?P<host>\S+):[0-9]{1,5}")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")
_JAVA_CLASS = r"^[A-Za-z_$][\w$]*(\.[A-Za-z_$][\w$]*)*$"
_TIME_OF_DAY = re.compile(r"([01]\d|2[0-3]):[0-5]\d")
_PLAIN = re.compile(r"[0-9]+(\.[0-9]+)?")
_DAYS: Final = "30d or 36h; a plain number is days"
_HOOK = r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$"


def _wrong(text: str) -> PydanticCustomError:
    return PydanticCustomError("wrong", "{text}", {"text": text})


def addresses(value: str) -> str:
    """Return the addresses without blanks between them, if each is one. Nothing is repeated of what
    is none: it may hold a password.
    """
    found = [part.strip() for part in value.split(",")]
    for number, text in enumerate(found, start=1):
        where = f"address {number}: " if len(found) > 1 else ""
        protocol = _PROTOCOL.fullmatch(text)
        if protocol is not None:
            name = protocol["name"].upper()
            raise _wrong(
                f"{where}write host:port without {name}://, and security.protocol: {name} under "
                "properties"
            )
        problem = _address_problem(text)
        if problem is not None:
            raise _wrong(f"{where}{problem}")
    return ",".join(found)


def _address_problem(text: str) -> str | None:
    if parsed(text) is not None:
        return None
    if not text:
        return "expected host:port, and nothing is there"
    if "@" in text:
        return "expected host:port; a user and a password belong under properties"
    host, colon, port = text.rpartition(":")
    if is_ipv6(text) or is_ipv6(host):
        return "write an IPv6 host in brackets, as in [::1]:9092"
    if parsed(f"{text}:1") is not None:
        return "the port is missing: host:port, as in broker-1:9092"
    if colon and port.isdecimal() and parsed(f"{host}:1") is not None:
        return "a port is a number from 1 to 65535"
    return "expected host:port, as in broker-1:9092 or [::1]:9092"


def _listen(value: str) -> str:
    """An address to bind, whose host may be any."""
    match = _LISTEN.fullmatch(value)
    if match is None:
        raise _wrong("expected host:port, as in 127.0.0.1:9640 or [::1]:9640")
    if not 1 <= int(value.rpartition(":")[2]) <= PORT_MAX:
        raise _wrong("a port is a number from 1 to 65535")
    return value


def _url(value: str) -> str:
    """An address of http or https, its scheme in lower case. Nothing of it is repeated."""
    match = _URL.fullmatch(value)
    if match is None or match["scheme"].lower() not in {"http", "https"}:
        raise _wrong("expected http://host:port or https://host:port")
    found = f"{match['scheme'].lower()}://{match['rest']}"
    place = re.split(r"[/?#]", match["rest"], maxsplit=1)[0]
    if place.count(":") > 1 and "[" not in place and "@" not in place:
        raise _wrong("write an IPv6 host in brackets, as in http://[::1]:8083")
    try:
        parts = urlsplit(found)
        host, port = parts.hostname, parts.port
    except ValueError as exc:
        if "port" in str(exc).lower():
            raise _wrong("a port is a number from 1 to 65535") from None
        raise _wrong("write an IPv6 host in brackets, as in http://[::1]:8083") from None
    if "@" in parts.netloc:
        raise _wrong("leave user and password out of it, and give them under auth")
    if not host or re.search(r"\s", found):
        raise _wrong("expected http://host:port or https://host:port")
    if port == 0:
        raise _wrong("a port is a number from 1 to 65535")
    return found


def _base_url(value: str) -> str:
    """An address to which paths are appended."""
    found = _url(value)
    if "?" in found or "#" in found:
        raise _wrong("leave out what follows ? or #: paths are appended to this address")
    return found


def _folder(value: str) -> str:
    """Not a URI: it would be taken for a folder of that name, here."""
    if _SCHEME.match(value):
        raise _wrong("a folder, mounted wherever it is needed; not a URI")
    return value


def _compiled(value: object) -> object:
    if not isinstance(value, str):
        raise _wrong("input should be a valid string")
    try:
        return re.compile(value)
    except (re.error, OverflowError, RecursionError) as exc:
        at = getattr(exc, "pos", None)
        where = "" if at is None else f", at character {at + 1}"
        raise _wrong(f"not a regular expression{where}") from None


def _selector(value: str) -> str:
    """Not a regular expression: one that is not anchored means more than it seems to."""
    if value == ".*" or value.startswith("^") or value.endswith("$"):
        raise _wrong("a whole name in which * stands for any characters; not a regular expression")
    return value


def selects_all(selector: str) -> bool:
    """Whether nothing in it names anything."""
    return not selector.replace("*", "")


def _time_of_day(value: object) -> object:
    """YAML takes 22:00 without quotes for a number."""
    if isinstance(value, str) and _TIME_OF_DAY.fullmatch(value):
        return value
    raise _wrong('a time of day as "22:00", in quotes')


def _zone(value: str) -> str:
    try:
        ZoneInfo(value)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise _wrong("not a time zone that this machine knows") from None
    return value


def _found(path: Path, info: ValidationInfo) -> Path:
    """The file, absolute; a mistake if it cannot be read now."""
    found = Path((info.context or {}).get(FOLDER, ".")).resolve() / path
    try:
        read_secret(found)
    except (OSError, ValueError) as exc:
        raise _wrong(problem_with(exc)) from None
    return found


def _of_tokens(path: Path, info: ValidationInfo) -> Path:
    """The file, absolute; a mistake if others can read it, or if what it holds is no token."""
    found = Path((info.context or {}).get(FOLDER, ".")).resolve() / path
    try:
        tokens_in(read_private(found))
    except (OSError, ValueError) as exc:
        raise _wrong(problem_with(exc)) from None
    return found


def _of_worker(path: Path, info: ValidationInfo) -> Path:
    """The file, absolute; a mistake if it is not what a worker is started with."""
    found = Path((info.context or {}).get(FOLDER, ".")).resolve() / path
    try:
        settings = properties.read(found)
    except (OSError, ValueError) as exc:
        raise _wrong(problem_with(exc)) from None
    if not {"key.converter", "value.converter"} <= settings.keys():
        raise _wrong("has no key.converter and value.converter, which every worker is given")
    return found


def _moment(value: object) -> object:
    """YAML makes a time of what stands without quotes."""
    try:
        found = datetime.fromisoformat(value) if isinstance(value, str) else value
    except ValueError:
        found = None
    if not isinstance(found, datetime) or found.tzinfo is None:
        raise _wrong("expected a date and time with a time zone, as 2030-01-31T00:00:00Z")
    return found


def _duration(value: object) -> float:
    """Seconds; a plain number is a number of them."""
    return _parsed_duration(value) if isinstance(value, str) else _finite(value, FORMS)


def _days(value: object) -> float:
    """Days; a plain number is a number of them."""
    if isinstance(value, str) and not _PLAIN.fullmatch(value):
        return _parsed_duration(value, _DAYS) / DAY_S
    return _finite(float(value) if isinstance(value, str) else value, _DAYS)


def _parsed_duration(value: str, forms: str = FORMS) -> float:
    try:
        return parse_duration(value, forms)
    except ValueError as exc:
        raise _wrong(str(exc)) from None


def _finite(value: object, forms: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _wrong(f"not a duration: write {forms}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise _wrong(f"a duration has an end: write {forms}")
    return number


def is_loopback(listen: str) -> bool:
    """Whether only this machine can reach an address `host:port`."""
    host = listen.rpartition(":")[0].removeprefix("[").removesuffix("]")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _imported(value: str) -> str:
    """The name itself, once it is known to lead to a function."""
    try:
        usable = callable(function_of(value))
    except (ImportError, AttributeError) as exc:
        raise _wrong(f"cannot be imported: {exc}") from None
    except Exception as exc:  # noqa: BLE001 - the module is not ours: anything may come out of it
        raise _wrong(f"cannot be imported: {type(exc).__name__}") from None
    if not usable:
        raise _wrong("not a function")
    return value


def function_of(name: str) -> Any:
    """What `module:function` names. Raises whatever importing it raises."""
    module, _, function = name.partition(":")
    return getattr(importlib.import_module(module), function)


Name = Annotated[str, StringConstraints(min_length=1, max_length=100)]
Alias = Annotated[str, StringConstraints(max_length=100)]
Topic = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._-]{1,249}$")]
Address = Annotated[str, AfterValidator(addresses)]
Listen = Annotated[str, AfterValidator(_listen)]
Url = Annotated[str, AfterValidator(_base_url)]
WebhookUrl = Annotated[str, AfterValidator(_url)]
Regex = Annotated[re.Pattern[str], BeforeValidator(_compiled)]
File = Annotated[Path, Field(strict=False), AfterValidator(_found)]
TokenFile = Annotated[Path, Field(strict=False), AfterValidator(_of_tokens)]
WorkerFile = Annotated[Path, Field(strict=False), AfterValidator(_of_worker)]
Moment = Annotated[datetime, BeforeValidator(_moment)]
Duration = Annotated[float, BeforeValidator(_duration), PlainNumber(1.0)]
Days = Annotated[float, BeforeValidator(_days), PlainNumber(DAY_S)]
Hook = Annotated[str, StringConstraints(pattern=_HOOK), AfterValidator(_imported)]
JavaClass = Annotated[str, StringConstraints(pattern=_JAVA_CLASS)]
Selector = Annotated[str, StringConstraints(min_length=1), AfterValidator(_selector)]
TimeOfDay = Annotated[str, BeforeValidator(_time_of_day)]
Zone = Annotated[str, AfterValidator(_zone)]
LogFile = Annotated[str, StringConstraints(min_length=1)]
Folder = Annotated[str, AfterValidator(_folder)]
