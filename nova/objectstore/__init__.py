"""nova-objectstore: an S3-compatible object store that keeps objects as files on one host."""
