"""clients + decode -> batches of observations. Threads and polls that only enqueue."""
