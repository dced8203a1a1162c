"""The control listener: alerts and people ask here for what changes something.

    server      its thread: sockets, TLS, the bounds of a connection
    listener    a request from its head to an answer: host, principal, route, body
    workers     the threads that ask the desk
    access      who asks, and what a role and a scope allow
    routes      the endpoints: one function each, from a call to the desk to an answer
    hooks       an Alertmanager's payload -> hints
    wishes      the bodies of all other requests
    strict      JSON without anything that two readers could read in two ways
    openapi     the document that describes it all, made from the routes

Nothing here decides or changes anything: that is for the desk (remedy/desk.py). A request that is
refused is never seen by it. No body, token or label is ever logged.
"""
