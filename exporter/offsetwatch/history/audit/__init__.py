"""The audit of a mirror: upstream and downstream compared record by record, on Spark."""
