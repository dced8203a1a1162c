"""The only code that can change anything outside: connectors, offsets, records, topics.

In: one request of a driver. Out: what the server answered, or an error that says whether the change
may have happened all the same. Only `remedy.drivers` may import it (a contract holds it), and a
request is never repeated here.
"""
