"""THE ONLY SOCKETS OUT: Kafka, Connect, Kubernetes, webhooks. Nothing else speaks to them.

In: addresses, credentials and bounds of the configuration. Out: typed answers, or errors of
offsetwatch.errors: every error of a library is translated here. Answers are bounded before they are
decoded. What can change anything outside is in `write` alone.
"""
