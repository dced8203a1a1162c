"""What Python 3.13 has as copy.replace: of a dataclass, a NamedTuple or a Struct alike."""

from __future__ import annotations

import dataclasses
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")


def replace(of: T, /, **changes: Any) -> T:
    """The same with other values."""
    if isinstance(of, msgspec.Struct):
        return msgspec.structs.replace(of, **changes)
    return dataclasses.replace(of, **changes)  # type: ignore[type-var]
