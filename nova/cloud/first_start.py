"""Create the flavors and the network of a new deployment; idempotent.

nova.identity.embedded.bootstrap creates the users and projects.
"""
from oslo_config import cfg

from nova.db import engine
from nova.db.projects import flavors
from nova.network import setup as network_setup

# id, name, vCPUs, memory MiB, disk GiB
FLAVORS = (
    ('1', 'm1.tiny', 1, 512, 1),
    ('2', 'm1.small', 1, 2048, 20),
    ('3', 'm1.medium', 2, 4096, 40),
    ('4', 'm1.large', 4, 8192, 80),
    ('5', 'm1.xlarge', 8, 16384, 160),
    ('42', 'm1.nano', 1, 128, 1),
    ('84', 'm1.micro', 1, 256, 1),
)


def bootstrap(conf: cfg.ConfigOpts, api_db: engine.Database) -> None:
    """Create the default flavors, if there are no flavors, and the default network."""
    with api_db.reader() as conn:
        missing = not flavors.exist(conn)
    if missing:
        api_db.run(_flavors)
    if conf.network.backend == 'embedded':
        network_setup.bootstrap(conf, api_db)


def _flavors(conn: engine.Connection) -> None:
    for flavor_id, name, vcpus, memory_mb, root_gb in FLAVORS:
        flavors.insert_missing(conn, {
            'flavor_id': flavor_id, 'name': name, 'vcpus': vcpus, 'memory_mb': memory_mb, 'root_gb': root_gb,
            'ephemeral_gb': 0, 'swap': 0, 'rxtx_factor': 1.0, 'is_public': True, 'disabled': False,
            'extra_specs': {}})
