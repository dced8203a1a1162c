"""Facts for guards and plans, read when they are needed: the connector, brokers, the journal.

In: an incident and clients. Out: facts, each known or unknown with the reason, and the record that
a task fails at. Changes nothing.
"""
