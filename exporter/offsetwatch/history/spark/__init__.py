"""The Spark session: its jars, its security, the folder that its parts share."""
