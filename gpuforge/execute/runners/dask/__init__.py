"""Runs actions on the workers of a dask cluster."""
