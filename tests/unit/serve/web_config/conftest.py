from pathlib import Path

import pytest

from .listeners import WebListener


@pytest.fixture
def listener(tmp_path: Path) -> WebListener:
    return WebListener(tmp_path)
