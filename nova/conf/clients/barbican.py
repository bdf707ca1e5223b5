"""[barbican]: the Key Manager service that has the keys of encrypted volumes. Options are those of keystoneauth1."""
from nova.conf.clients import keystoneauth

GROUP = 'barbican'

OPTIONS = list(keystoneauth.SERVICE)
