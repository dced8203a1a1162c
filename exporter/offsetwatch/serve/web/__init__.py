"""What a web config file asks of a listener: TLS, certificates, passwords, headers.

    current     the file as it is now: read again when it changes, kept when it cannot be used
    tls         its TLS as Python's ssl has it, and the names in a client's certificate
    passwords   bcrypt, in a thread of its own, bounded
    guard       all of it before each request of the read listener

The shape is in config/web.py. The control listener asks current and passwords by itself, as it has
other ways to know somebody.
"""
