"""offsetwatch: progress and lag of Kafka Connect source connectors and MirrorMaker 2.

The package is a pipeline (CONTRIBUTING.md draws it): bytes are decoded into nouns, nouns over time
make state, state is judged and served. Imports point one way and `lint-imports` says so.
"""

__version__ = "0.1.0"
