"""What actions do, one file for each kind: a step's fields, the decisions that fill them, and its work."""
