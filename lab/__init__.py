"""
A real Kafka test bed on one machine: two brokers, Connect workers and MirrorMaker 2.

For tests and demonstrations of what is watched; the exporter itself never imports it.

    from lab import Lab, LabOptions

    with Lab(LabOptions(workers=2)) as lab:
        lab.append_lines(10)
        print(lab.offsets("file-source"))
"""

from lab.cluster.lab import Lab
from lab.cluster.load import Endpoints, Load
from lab.cluster.options import LabOptions, Ports
from lab.errors import LabError

__all__ = ["Endpoints", "Lab", "LabError", "LabOptions", "Load", "Ports"]
