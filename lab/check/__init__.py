"""Ground truth and second opinions: what Kafka, Connect and our own recorders say."""
