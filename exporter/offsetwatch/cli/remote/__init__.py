"""Clients of a running daemon over HTTP: its read listener, and its control listener.

In: an address and credentials of options, files or the environment. Out: the daemon's documents, or
errors that name the address. The only importers of httpx outside clients.
"""
