"""Plans carried out: the runner asks the engine, writes the journal, then calls a driver.

In: an approved plan, or one that an earlier process left. Out: journal records and an ending. One
plan a connector at a time, by a lock of the kernel.
"""
