"""Bytes into facts; nothing here knows what a wheel is."""
