"""Objects in buckets, over S3's protocol, kept in files of one host (nova-objectstore)."""
