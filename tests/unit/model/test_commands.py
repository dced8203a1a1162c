"""Commands in messages can be pasted, whatever a connector is called."""

from __future__ import annotations

import shlex

import pytest

from offsetwatch.formatting import format_connector_command

NAMES = ["orders", "two words", "it's", "-x", "--config", "$(id)"]


@pytest.mark.parametrize("name", NAMES)
def test_a_connector_is_one_word_and_never_an_option(name):
    typed = shlex.split(format_connector_command("offsets alter", name, "--worker-config", "FILE"))
    assert typed[:3] == ["offsetwatch", "offsets", "alter"]
    if name.startswith("-"):
        assert typed[3:] == ["--worker-config", "FILE", "--", name]
    else:
        assert typed[3:] == [name, "--worker-config", "FILE"]
