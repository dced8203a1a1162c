"""
How a lab starts the product: as it stands beside the lab, wherever it may be installed.

Whatever is started this way may have a folder of its own, in which a relative PYTHONPATH would name
nothing.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
# `env` becomes what it starts; more variables may follow.
BESIDE = ("env", f"PYTHONPATH={ROOT / 'exporter'}:{ROOT}")
EXPORTER = (*BESIDE, sys.executable, "-P", "-m", "offsetwatch")
