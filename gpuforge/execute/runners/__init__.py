"""How an action is run: by local processes or in containers."""
