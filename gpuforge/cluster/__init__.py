"""Builds on many machines: a store that they share, and the workers of a cluster."""
