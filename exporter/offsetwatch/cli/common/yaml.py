"""YAML output of a value, with the numbers of its JSON; imported only if YAML is requested."""

from __future__ import annotations

import math
import sys
from typing import Any

import msgspec
import yaml

from offsetwatch import documents
from offsetwatch.cli.common.output import is_utf8


class _Number(str):
    """A number with a point or an exponent, kept as it was written."""

    __slots__ = ()


class _Dumper(yaml.SafeDumper):
    """A YAML dumper that writes numbers as they were written."""


def _represent_number(dumper: yaml.SafeDumper, number: _Number) -> yaml.Node:
    return dumper.represent_scalar("tag:yaml.org,2002:float", str(number))


_Dumper.add_representer(_Number, _represent_number)


def print_yaml(value: Any) -> None:
    """Print a value that JSON can hold as YAML, with its keys in their order."""
    decoder = msgspec.json.Decoder(float_hook=_Number)
    plain = decoder.decode(documents.encode(value))
    yaml.dump(plain, sys.stdout, _Dumper, sort_keys=False, allow_unicode=is_utf8(), width=math.inf)
