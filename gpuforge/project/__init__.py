"""A project that somebody else wrote: its files become facts, and these a first manifest. Nothing of it is run."""
