"""Readers of the ends of sources: databases and files. Each reads, and changes nothing.

A reader has one connection, opened at the first read, used again, and replaced after an error.
It sends one statement at a time, outside a transaction. A library that its kind needs is imported
at the first read.
"""

from offsetwatch.clients.databases.reader import READ_TIMEOUT_S, SourceReader, build_source_reader
from offsetwatch.clients.databases.settings import find_user

__all__ = ["READ_TIMEOUT_S", "SourceReader", "build_source_reader", "find_user"]
