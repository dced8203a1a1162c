"""The Spark jobs from offset topics to bronze, silver and gold."""
