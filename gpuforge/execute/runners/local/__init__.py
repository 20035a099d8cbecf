"""Runs actions as processes of this machine."""
