"""Runs actions in containers."""
