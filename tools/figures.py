"""Pictures in docs/ as SVG by matplotlib: the same bytes for the same figure, text as text."""

from __future__ import annotations

import io

from matplotlib import rc_context
from matplotlib.figure import Figure


def to_svg(figure: Figure) -> str:
    """Return the figure as SVG."""
    file = io.StringIO()
    with rc_context(
        {
            "svg.fonttype": "none",  # text stays text: it is searched for, and tests read it
            "svg.hashsalt": "offsetwatch",  # ids are the same each time
            "text.parse_math": False,  # a dollar sign is one
        }
    ):
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    return file.getvalue()
