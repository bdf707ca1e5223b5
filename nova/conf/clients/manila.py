"""[manila]: the Shared File Systems service that has the shares of servers. Options are those of keystoneauth1."""
from nova.conf.clients import keystoneauth

GROUP = 'manila'

OPTIONS = list(keystoneauth.SERVICE)
