"""A real Kubernetes API server, the operator of Strimzi as played here, and the rendered chart."""
