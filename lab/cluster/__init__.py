"""Clusters on this machine: brokers, Connect workers, MirrorMaker, and clients to act on them."""
