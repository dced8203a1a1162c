"""Plans meet the world: the only importers of clients that change a Connect cluster, an offsets
topic or an offsets file.
"""
