from pathlib import Path

import pytest

from .listeners import Site


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)
