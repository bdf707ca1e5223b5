"""What tests share with nova/tests/functional/test_manage_commands.py."""
import pytest

from nova.cmd.manage import main as manage
from nova.rpc import inprocess
from nova.tests.functional import cloud as clouds


@pytest.fixture(scope='module')
def cloud(tmp_path_factory):
    directory = tmp_path_factory.mktemp('manage')
    with clouds.running(directory / 'state', hosts=['host1', 'host2']) as made:
        config = directory / 'nova.conf'
        url = f'{inprocess.SCHEME}:///{made.state_path}'
        config.write_text(f'[DEFAULT]\ntransport_url = {url}\nstate_path = {made.state_path}\nhost = host1\n'
                          'compute_driver = fake\n[network]\ndriver = fake\n')
        made.config, made.boss = config, made.admin('2.104')
        made.image = made.boss.upload_image()
        yield made


@pytest.fixture
def nova_manage(cloud, capsys):
    def run(*arguments):
        code = manage.main([*map(str, arguments), '--config-file', str(cloud.config)])
        out, err = capsys.readouterr()
        return code, out, err
    return run
