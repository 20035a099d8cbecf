"""Named bytes in a place that several machines reach: a folder, or a bucket of S3 or Google Cloud Storage."""
