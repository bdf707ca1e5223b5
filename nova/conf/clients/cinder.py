"""[cinder]: the Block Storage service, when [volume]/backend is cinder. The names are those of keystoneauth1."""
from nova.conf.clients import glance

GROUP = 'cinder'

OPTIONS = glance.OPTIONS
SAMPLE_OPTIONS = glance.SAMPLE_OPTIONS
