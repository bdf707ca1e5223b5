"""What tests share with nova/tests/functional/test_conversion.py."""
import pytest
import yaml

from nova.tests.functional import cloud as clouds
from nova.tests.older_release import tree

CONFIG = """[DEFAULT]
state_path = {state}
host = host1
[network]
driver = fake
[http]
port = 0
[objectstore]
port = 0
{more}"""


@pytest.fixture(scope='module')
def before(tmp_path_factory):
    """The source tree before."""
    source = tree.exported(tmp_path_factory.mktemp('before'), tree.BEFORE)
    if source is None:
        pytest.skip(f'this clone has no history that reaches {tree.BEFORE}; its rows are converted by '
                    'unit/test_conversion.py')
    return source


def client_of(state, name='nova-demo'):
    """A Client of the cloud whose state this is."""
    entry = yaml.safe_load((state / 'clouds.yaml').read_text())['clouds'][name]['auth']
    return clouds.Client(entry['auth_url'].partition('/identity')[0], entry['username'], entry['password'],
                         entry['project_name'])
