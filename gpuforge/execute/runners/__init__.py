"""How an action is run: by local processes, in containers, or by the workers of a cluster."""
