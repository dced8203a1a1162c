"""What is usual of connectors and flows: learned on Spark, published for the daemon."""
