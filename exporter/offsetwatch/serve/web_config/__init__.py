"""Web config files of Prometheus' kind on a listener: TLS, client certificates, passwords, headers.

In: the file, read again when it changes. Out: a TLS context, and who is asking. A file that cannot
be used never lowers the protection: the one before it stays. The schema is in config/schema/web.py.
"""
