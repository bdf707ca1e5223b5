"""What a small fleet of a test or a measurement begins with: embedded identity, networks, flavors and an image."""
import dataclasses
import os
import pathlib
import sys

from nova import conf as nova_conf
from nova import context
from nova.cloud import assembly
from nova.cloud import first_start
from nova.db import engine
from nova.db import schema
from nova.identity.embedded import bootstrap as identity_bootstrap

BIN = pathlib.Path(sys.executable).parent
# of a compute, which has no database: servers boot from images that the fake driver does not fetch
NO_IMAGES = '''
[image]
backend = glance
[glance]
endpoint_override = http://127.0.0.1:9/
auth_type = none
'''
UNLIMITED = '''
[quota]
instances = -1
cores = -1
ram = -1
[network]
quota = port:-1
'''


@dataclasses.dataclass
class Prepared:
    """
    passwords  {user: password}
    token      of admin in the project admin
    image      id of an image of zeros that everybody sees
    """

    api_db: engine.Database
    cell_db: engine.Database
    passwords: dict
    token: str
    image: str

    def close(self):
        self.api_db.dispose()
        self.cell_db.dispose()


def prepare(config, url):
    """Make schemas and first rows.

    :param config: path of the configuration file of a daemon with databases
    :param url: of nova-api
    """
    conf = nova_conf.new(files=[str(config)])
    api_db, cell_db = assembly.open_databases(conf)
    schema.sync(api_db, 'api')
    schema.sync(cell_db, 'cell')
    identity = assembly.identity(conf, api_db, url)
    passwords = identity_bootstrap.bootstrap(identity)
    first_start.bootstrap(conf, api_db)
    store, ctx = assembly.image_store(conf, api_db), context.admin_context()
    image = store.create(ctx, {'name': 'small', 'disk_format': 'raw', 'container_format': 'bare',
                               'visibility': 'public'})['id']
    store.upload(ctx, image, [bytes(4096)])
    return Prepared(api_db, cell_db, passwords, identity.login('admin', passwords['admin'], 'admin')[0], image)


def environment():
    """For a daemon: nothing of the deployment of who starts it."""
    return {name: value for name, value in os.environ.items() if not name.startswith('OS_')}
