"""Findings -> people: who is told what, once, and told again when it is over. Off by default."""
