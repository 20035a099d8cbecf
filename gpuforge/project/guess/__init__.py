"""Guesses the keys of a manifest from the facts about a project, each with its reason."""
