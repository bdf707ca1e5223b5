"""nova-objectstore: an S3-compatible object store in files of one host."""
