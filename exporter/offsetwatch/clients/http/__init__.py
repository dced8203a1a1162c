"""HTTP as every client here speaks it: authentication, TLS, bounds of time and size, redaction.

In: a request. Out: a bounded body, or an error that names the address and never a secret. Redirects
are not followed, and no proxy of the environment is used.
"""
