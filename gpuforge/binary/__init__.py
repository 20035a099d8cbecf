"""Readers from bytes to facts; they do not know wheels."""
