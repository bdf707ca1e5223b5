"""[glance]: the Image service, when [image]/backend is glance. Options are those of keystoneauth1."""
from nova.conf.clients import keystoneauth

GROUP = 'glance'

OPTIONS = list(keystoneauth.SERVICE)
