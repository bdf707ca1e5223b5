"""[placement]: the Placement service that Neutron reports bandwidth and segments to. keystoneauth1's names."""
from nova.conf.clients import glance

GROUP = 'placement'

OPTIONS = [*glance.OPTIONS]
SAMPLE_OPTIONS = glance.SAMPLE_OPTIONS
