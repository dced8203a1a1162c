"""Figures anyone can reproduce: `make bench`. Ratios against a named baseline in the same run."""
