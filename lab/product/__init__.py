"""offsetwatch beside a lab: its configurations, processes and verbs, and what alerts."""
