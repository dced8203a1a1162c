"""What a failover would replay or lose, from the tables. Without Spark."""
