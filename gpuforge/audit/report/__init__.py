"""The renderers of an audit's report."""
