"""Reads a project into facts without running its code, and makes a first manifest from them."""
