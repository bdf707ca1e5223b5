"""[manila]: the Shared File Systems service that has the shares of servers. The names are those of keystoneauth1."""
from nova.conf.clients import glance

GROUP = 'manila'

OPTIONS = glance.OPTIONS
SAMPLE_OPTIONS = glance.SAMPLE_OPTIONS
