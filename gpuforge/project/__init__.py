"""Reads a project into facts, and makes a first manifest from them. No code of the project is run."""
