"""Base class of all sections of the configuration file, and the section of name patterns."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from offsetwatch.config.schema.types import Regex


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
