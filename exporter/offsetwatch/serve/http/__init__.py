"""Sockets of both listeners: accepting, bounds of a connection, and the paths of the read listener.

In: connections. Out: answers. A request has a deadline as a whole, and the number of connections is
bounded.
"""
