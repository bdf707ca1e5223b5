"""[cinder]: the Block Storage service, when [volume]/backend is cinder. Options are those of keystoneauth1."""
from nova.conf.clients import keystoneauth

GROUP = 'cinder'

OPTIONS = list(keystoneauth.SERVICE)
