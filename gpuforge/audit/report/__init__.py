"""Renderers of an audit's report: values never render themselves."""
