"""Seeded kills of the daemon, the pipeline and the verbs: nothing may be lost or left half done."""
