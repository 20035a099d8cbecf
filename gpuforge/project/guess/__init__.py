"""From what a project's files show to the keys of its manifest: each guess with its reason."""
