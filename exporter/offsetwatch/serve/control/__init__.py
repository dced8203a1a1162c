"""The control listener: alerts and operators ask here for what changes something.

In: HTTP requests with credentials. Out: calls to remedy's service, and their answers. Nothing is
decided here; a refused request never reaches the service; no body, token or label is logged.
`listener_thread` has the socket, `dispatcher` a request from head to answer, `access` the roles,
`routes` the endpoints.
"""
