"""Writing records of offsets topics. Only remedy's drivers import this."""
