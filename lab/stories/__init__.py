"""
Incidents acted out on a running lab, each with the act that mends it.

Every story has a connector, topics and aliases of its own (flow.py), so that several can be told in
one lab without meeting. An act returns when the incident is there by the account of Kafka and
Connect, and says in a Deed what exactly was done; what the product makes of it is no part of it.

    with Lab(LabOptions(offset_flush_interval_ms=1000)) as lab:
        flow = begin(Flow(lab, "retention"), records=30)
        deed = losses.retention_overtakes(flow)
        print(deed.lost)
        losses.copy_on(flow)
"""

from lab.stories.flow import Deed, Flow, begin, end

__all__ = ["Deed", "Flow", "begin", "end"]
