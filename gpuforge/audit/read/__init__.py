"""Read: from the bytes of a wheel to its facts."""
