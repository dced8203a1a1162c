"""Requests that change a Connect cluster. Only remedy's drivers import this."""
