"""What all tests share: this repository on the path, and no chance in their course."""

from __future__ import annotations

import sys
from pathlib import Path

from hypothesis import settings

ROOT = Path(__file__).parents[1]

# `pytest` alone does not look for packages where it was started; `lab` is never installed.
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

# The same examples in every run: a failure is one of the change, not of the day.
settings.register_profile("fixed", derandomize=True, deadline=None, database=None, max_examples=60)
settings.load_profile("fixed")
