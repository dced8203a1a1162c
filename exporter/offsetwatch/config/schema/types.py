"""Types of single values in the configuration file, and the base class of its sections.

No message repeats the content of a file that a value names.
"""

from __future__ import annotations

import importlib
import ipaddress
import math
import re
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationInfo,
)
from pydantic_core import PydanticCustomError

from offsetwatch.addresses import is_ipv6, parse_address
from offsetwatch.config import properties
from offsetwatch.config.files import (
    describe_file_error,
    parse_tokens,
    read_private_file,
    read_secret,
)
from offsetwatch.formatting import (
    DAY_S,
    DURATION_FORMS,
    DURATION_MAX_S,
    PlainNumber,
    format_duration,
    parse_duration,
)

P = TypeVar("P", str, Path)
FOLDER_KEY: Final = "folder"  # of the configuration file, in the context of a validation
_PROTOCOL = re.compile(r"(?P<name>[A-Za-z_]+)://(?P<rest>.*)", re.DOTALL)
_URL = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<rest>.*)", re.DOTALL)
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")
_JAVA_CLASS = r"[A-Za-z_$][\w$]*(\.[A-Za-z_$][\w$]*)*"
_TOPIC_NAME = r"[A-Za-z0-9._-]{1,249}"
_TIME_OF_DAY = re.compile(r"([01]\d|2[0-3]):[0-5]\d")
_PLAIN_NUMBER = re.compile(r"[0-9]+(\.[0-9]+)?")
_DAYS_FORMS: Final = "30d or 36h; a plain number is days"
_HOOK = r"[A-Za-z_][\w.]*:[A-Za-z_]\w*"
_SECURITY_PROTOCOLS: Final = frozenset({"PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"})
_ADDRESS: Final = (
    "expected host:port, several separated by commas, as in broker-1:9092,broker-2:9092"
)


def _build_error(text: str) -> PydanticCustomError:
    return PydanticCustomError("wrong", "{text}", {"text": text})


def require_form(pattern: str, expected: str) -> AfterValidator:
    """Return a validator that a text has a form. Its message repeats nothing of the text.

    The message describes the form in words; pydantic's would show the pattern.
    """
    compiled = re.compile(pattern)

    def check(value: str) -> str:
        if compiled.fullmatch(value) is None:
            raise _build_error(f"expected {expected}")
        return value

    return AfterValidator(check)


def check_addresses(value: str) -> str:
    """Return the addresses without blanks between them; raise an error if one is invalid.

    The error does not repeat an invalid address, which may hold a password.
    """
    addresses = [part.strip() for part in value.split(",")]
    for number, text in enumerate(addresses, start=1):
        where = f"address {number}: " if len(addresses) > 1 else ""
        protocol = _PROTOCOL.fullmatch(text)
        if protocol is not None:
            name, hint = protocol["name"].upper(), ""
            if name in _SECURITY_PROTOCOLS:
                hint = f", and security.protocol: {name} under properties"
            raise _build_error(f"{where}write host:port without {protocol['name']}://{hint}")
        problem = _describe_bad_address(text)
        if problem is not None:
            raise _build_error(f"{where}{problem}")
    return ",".join(addresses)


def _describe_bad_address(text: str) -> str | None:
    if parse_address(text) is not None:
        return None
    if not text:
        return "expected host:port, and nothing is there"
    if "@" in text:
        return "expected host:port; a user and a password belong under properties"
    host, colon, port = text.rpartition(":")
    if is_ipv6(text) or is_ipv6(host):
        return "write an IPv6 host in brackets, as in [::1]:9092"
    if parse_address(f"{text}:1") is not None:
        return "the port is missing: host:port, as in broker-1:9092"
    if colon and port.isdecimal() and parse_address(f"{host}:1") is not None:
        return "a port is a number from 1 to 65535"
    return _ADDRESS


def _check_listen(value: str) -> str:
    """Return an address to bind; raise an error if it is none."""
    if parse_address(value) is not None:
        return value
    host, colon, port = value.rpartition(":")
    if "://" in value:
        raise _build_error("write host:port without a scheme, as in 127.0.0.1:9640")
    if host in {"", "*"} and colon and port.isdecimal():
        raise _build_error("name the host: 0.0.0.0 for all addresses of this machine, or 127.0.0.1")
    if is_ipv6(value) or is_ipv6(host):
        raise _build_error("write an IPv6 host in brackets, as in [::1]:9640")
    if colon and port.isdecimal() and parse_address(f"{host}:1") is not None:
        raise _build_error("a port is a number from 1 to 65535")
    raise _build_error("expected host:port, as in 127.0.0.1:9640 or [::1]:9640")


def _check_url(value: str) -> str:
    """Return an http or https address with its scheme in lower case.

    Errors repeat nothing of it.
    """
    match = _URL.fullmatch(value)
    if match is None or match["scheme"].lower() not in {"http", "https"}:
        raise _build_error("expected http://host:port or https://host:port")
    url = f"{match['scheme'].lower()}://{match['rest']}"
    authority = re.split(r"[/?#]", match["rest"], maxsplit=1)[0]
    if authority.count(":") > 1 and "[" not in authority and "@" not in authority:
        raise _build_error("write an IPv6 host in brackets, as in http://[::1]:8083")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as exc:
        if "port" in str(exc).lower():
            raise _build_error("a port is a number from 1 to 65535") from None
        raise _build_error("write an IPv6 host in brackets, as in http://[::1]:8083") from None
    if "@" in parts.netloc:
        raise _build_error("leave user and password out of it, and give them under auth")
    bare = host or ""
    if (parse_address(f"{bare}:1") is None and not is_ipv6(bare)) or re.search(r"\s", url):
        raise _build_error("expected http://host:port or https://host:port")
    if port == 0:
        raise _build_error("a port is a number from 1 to 65535")
    return url


def _check_base_url(value: str) -> str:
    """Return an address to which paths are appended.

    Raise an error if it has a query or a fragment.
    """
    url = _check_url(value)
    if "?" in url or "#" in url:
        raise _build_error("leave out what follows ? or #: paths are appended to this address")
    return url


def _check_path(value: P) -> P:
    """Return the path; raise an error if it begins with ~, which only shells expand."""
    if str(value).startswith("~"):
        raise _build_error("~ is not expanded here: write the whole path")
    return value


def _check_folder(value: str, info: ValidationInfo) -> str:
    """Return the folder, which need not exist yet; raise an error for a file or a URI.

    A URI would be taken for a relative folder of that name.
    """
    if _SCHEME.match(value):
        raise _build_error("a folder, mounted wherever it is needed; not a URI")
    folder = Path((info.context or {}).get(FOLDER_KEY, ".")) / _check_path(value)
    try:
        is_other = folder.exists() and not folder.is_dir()
    except OSError as exc:  # such as a name that is too long
        raise _build_error(describe_file_error(exc)) from None
    if is_other:
        raise _build_error("expected a folder, and a file is there")
    return value


def _check_alertmanager(value: str) -> str:
    """Return the address of an Alertmanager, to which the path of its API is appended."""
    url = _check_base_url(value)
    if re.search("/api/v[12](/|$)", url):
        raise _build_error(
            "leave out /api and what follows: /api/v2/alerts is appended to this address"
        )
    return url


def _compile_regex(value: object) -> object:
    if not isinstance(value, str):
        raise _build_error("expected a regular expression, as a text")
    try:
        return re.compile(value)
    except (re.error, OverflowError, RecursionError) as exc:
        position = getattr(exc, "pos", None)
        where = "" if position is None else f", at character {position + 1}"
        hint = "; .* stands for any characters" if value.startswith("*") else ""
        raise _build_error(f"not a regular expression{where}{hint}") from None


def _check_copy_name(value: str) -> str:
    """Return a topic name, in which {topic} may stand once for the upstream topic."""
    if not re.fullmatch(_TOPIC_NAME, value.replace("{topic}", "t", 1)):
        raise _build_error("the name of a topic, in which {topic} once is the upstream one")
    return value


def _check_selector(value: str) -> str:
    """Return the selector; raise an error for a regular expression.

    An expression without anchors matches more than it seems to.
    """
    if value == ".*" or value.startswith("^") or value.endswith("$"):
        raise _build_error(
            "a whole name in which * stands for any characters; not a regular expression"
        )
    return value


def is_match_all(selector: str) -> bool:
    """Return whether the selector has no character but *."""
    return not selector.replace("*", "")


def _check_time_of_day(value: object) -> object:
    """Return a time of day as text.

    Raise an error for 22:00 without quotes, which YAML reads as a number.
    """
    if isinstance(value, str) and _TIME_OF_DAY.fullmatch(value):
        return value
    raise _build_error('a time of day as "22:00", in quotes')


def _check_zone(value: str) -> str:
    try:
        ZoneInfo(value)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise _build_error("not a time zone that this machine knows") from None
    return value


def _require_readable(read: Callable[[Path], object]) -> AfterValidator:
    """Return a validator that makes a path absolute and reads its file, which `read` may refuse."""

    def check(path: Path, info: ValidationInfo) -> Path:
        file = Path((info.context or {}).get(FOLDER_KEY, ".")).resolve() / path
        try:
            read(file)
        except PydanticCustomError:
            raise
        except (OSError, ValueError) as exc:
            raise _build_error(describe_file_error(exc)) from None
        return file

    return AfterValidator(check)


def _check_worker_file(file: Path) -> None:
    settings = properties.read_properties(file)
    if not {"key.converter", "value.converter"} <= settings.keys():
        raise _build_error("has no key.converter and value.converter, which every worker is given")


def _parse_moment(value: object) -> object:
    """Return the moment with its zone; YAML parses one without quotes to a datetime."""
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else value
    except ValueError:
        moment = None
    if not isinstance(moment, datetime) or moment.tzinfo is None:
        raise _build_error("expected a date and time with a time zone, as 2030-01-31T00:00:00Z")
    return moment


def _read_duration(value: object) -> float:
    """Return seconds; a plain number is a number of seconds."""
    if isinstance(value, str):
        return _parse_duration_text(value)
    return _check_finite(value, DURATION_FORMS)


def _read_days(value: object) -> float:
    """Return days; a plain number is a number of days."""
    if isinstance(value, str) and not _PLAIN_NUMBER.fullmatch(value):
        return _parse_duration_text(value, _DAYS_FORMS) / DAY_S
    return _check_finite(float(value) if isinstance(value, str) else value, _DAYS_FORMS)


def _parse_duration_text(value: str, forms: str = DURATION_FORMS) -> float:
    try:
        return parse_duration(value, forms)
    except ValueError as exc:
        raise _build_error(str(exc)) from None


def _check_finite(value: object, forms: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _build_error(f"not a duration: write {forms}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number) or number > DURATION_MAX_S:
        raise _build_error(
            f"a duration is at most {format_duration(DURATION_MAX_S)}: write {forms}"
        )
    return number


def is_loopback(listen: str) -> bool:
    """Return whether only this machine can reach an address `host:port`."""
    host = listen.rpartition(":")[0].removeprefix("[").removesuffix("]")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _check_hook(value: str) -> str:
    """Return the name; raise an error if it cannot be imported as a function."""
    module, _, function = value.partition(":")
    try:
        usable = callable(import_function(value))
    except ImportError as exc:
        raise _build_error(
            f"cannot be imported: {exc}; install it where offsetwatch is installed"
        ) from None
    except AttributeError:
        raise _build_error(f"the module {module} has no {function}") from None
    except Exception as exc:  # noqa: BLE001 - the module is not ours: anything may come out of it
        raise _build_error(f"cannot be imported: {type(exc).__name__}") from None
    if not usable:
        raise _build_error("not a function")
    return value


def import_function(name: str) -> Any:
    """Return the function that `module:function` names. Raises all that the import raises."""
    module, _, function = name.partition(":")
    return getattr(importlib.import_module(module), function)


Name = Annotated[str, StringConstraints(min_length=1, max_length=100)]
Alias = Annotated[str, StringConstraints(max_length=100)]
_TOPIC_FORM: Final = "the name of a topic: letters, digits, dots, _ and -"
Topic = Annotated[str, require_form(_TOPIC_NAME, _TOPIC_FORM)]
CopiedTopic = Annotated[str, require_form(rf"\*|{_TOPIC_NAME}", f"{_TOPIC_FORM}; or *")]
CopyName = Annotated[str, AfterValidator(_check_copy_name)]
Address = Annotated[str, AfterValidator(check_addresses)]
Listen = Annotated[str, AfterValidator(_check_listen)]
Url = Annotated[str, AfterValidator(_check_base_url)]
AlertmanagerUrl = Annotated[str, AfterValidator(_check_alertmanager)]
WebhookUrl = Annotated[str, AfterValidator(_check_url)]
Regex = Annotated[re.Pattern[str], BeforeValidator(_compile_regex)]
File = Annotated[
    Path, Field(strict=False), AfterValidator(_check_path), _require_readable(read_secret)
]
TokenFile = Annotated[
    Path,
    Field(strict=False),
    _require_readable(lambda file: parse_tokens(read_private_file(file))),
]
WorkerFile = Annotated[Path, Field(strict=False), _require_readable(_check_worker_file)]
ZonedMoment = Annotated[datetime, BeforeValidator(_parse_moment)]
Duration = Annotated[float, BeforeValidator(_read_duration), PlainNumber(1.0)]
Days = Annotated[float, BeforeValidator(_read_days), PlainNumber(DAY_S)]
Hook = Annotated[
    str,
    require_form(_HOOK, "module:function, as in package.module:function"),
    AfterValidator(_check_hook),
]
JavaClass = Annotated[str, require_form(_JAVA_CLASS, "the full name of a Java class")]
Selector = Annotated[str, StringConstraints(min_length=1), AfterValidator(_check_selector)]
TimeOfDay = Annotated[str, BeforeValidator(_check_time_of_day)]
Zone = Annotated[str, AfterValidator(_check_zone)]
LogFile = Annotated[str, StringConstraints(min_length=1), AfterValidator(_check_path)]
Folder = Annotated[str, StringConstraints(min_length=1), AfterValidator(_check_folder)]


class ConfigSection(BaseModel):
    """`hide_input_in_errors`: a mistake beside a password must not print it."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, hide_input_in_errors=True, allow_inf_nan=False
    )


class Patterns(ConfigSection):
    """Regular expressions that must match a whole name."""

    include: list[Regex] = []
    """Patterns to include; an empty list includes all."""
    exclude: list[Regex] = []
    """Patterns to exclude; they win over include."""

    def allows(self, name: str) -> bool:
        """Return whether the patterns include a name."""
        if any(pattern.fullmatch(name) for pattern in self.exclude):
            return False
        return not self.include or any(pattern.fullmatch(name) for pattern in self.include)
