"""Reading a Kafka Connect cluster: its REST API, and the offsets file of a standalone worker.

In: addresses of workers. Out: connectors, states, offsets and clocks as JSON values or typed
answers. A hanging or odd worker delays and spoils only its own share.
"""
