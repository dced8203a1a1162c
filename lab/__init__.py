"""
A real Kafka test bed on one machine: two brokers, Connect workers and MirrorMaker 2.

For tests and demonstrations of what is watched; the exporter itself never imports it.

    from lab import Lab, LabOptions

    with Lab(LabOptions(workers=2)) as lab:
        lab.append_lines(10)
        print(lab.offsets("file-source"))
"""

from lab.cluster import Lab
from lab.errors import LabError
from lab.load import Endpoints, Load
from lab.options import LabOptions, Ports

__all__ = ["Endpoints", "Lab", "LabError", "LabOptions", "Load", "Ports"]
