"""nova-cert: a certificate authority for the users of the cloud, and what is decrypted with its keys."""
