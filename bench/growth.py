"""How a cost grows with the size of what it is of."""

from __future__ import annotations

import math
from collections.abc import Mapping


def exponent(costs: Mapping[int, float]) -> float:
    """Of the power law through size -> cost, by least squares in logarithms: 1 is linear."""
    points = [(math.log(size), math.log(cost)) for size, cost in costs.items()]
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / sum(
        (x - mean_x) ** 2 for x, _ in points
    )
