"""leakscope: what a federated-learning client gives away with its model update."""
