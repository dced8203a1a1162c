"""The Kubernetes API: how its server is reached, and what is read from it.

In: a kubeconfig or the service account of a pod. Out: resources of Strimzi, paged and bounded, and
what we may do there.
"""
