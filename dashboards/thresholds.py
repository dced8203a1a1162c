"""Where a number becomes bad. Each is the one of that name in alerts/thresholds.rules.yaml; a test
compares the two.
"""

from __future__ import annotations

from typing import Final

MM2_REPLICATION_LAG_RECORDS: Final = 10_000
MM2_REPLICATION_LAG_SECONDS: Final = 900
SINK_LAG_RECORDS: Final = 10_000
SINK_LAG_SECONDS: Final = 900
TAIL_BEHIND_RECORDS: Final = 10_000
INPUT_SILENCE_SECONDS: Final = 300
STATE_AGE_SECONDS: Final = 300
RESTARTS_PER_HOUR: Final = 3
REMEDIATION_HOLD_SECONDS: Final = 1800
REMEDIATION_SILENCE_SECONDS: Final = 1800
HISTORY_AGE_SECONDS: Final = 3600
