"""nova-cert: certificate authority for users of the cloud, and decryption with its keys."""
