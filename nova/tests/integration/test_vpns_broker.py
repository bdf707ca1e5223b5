"""nova-manage vpn of a fleet: it speaks with the services over RabbitMQ, with no nova-all to ask."""
from nova.cert import signing
from nova.cmd.manage import main as manage
from nova.rpc import bus
from nova.tests import long_runs
from nova.tests.functional import cloud as whole
from nova.tests.integration import servers


class Cloud(whole.Cloud):
    """Whose services are behind the broker."""

    def __init__(self, directory, hosts=None, **overrides):
        super().__init__(directory, hosts, **overrides)
        bus.register_options(self.conf)
        self.conf.set_override('transport_url', servers.virtual_host().url)


@long_runs.only
def test_an_operator_runs_and_lists_them(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(signing, 'AUTHORITY_BITS', 2048)
    with whole.running(tmp_path, ['host1'], Cloud, api__nova_network_resources=True) as cloud:
        config = tmp_path / 'manage.conf'
        config.write_text(f'[DEFAULT]\nstate_path = {tmp_path}\ntransport_url = {cloud.conf.transport_url}\n'
                          '[api]\nnova_network_resources = true\n')

        def run(*words):
            capsys.readouterr()
            code = manage.main(['--config-file', str(config), 'vpn', *words])
            captured = capsys.readouterr()
            return code, captured.out + captured.err
        admin = cloud.admin()
        code, said = run('run', 'demo')
        assert code == 1 and 'default image' in said
        image = admin.upload_image(name='vpn', visibility='public')
        admin.put('/os-instance-categories/vpn', {'instance_category': {'default_image': image,
                                                                        'default_flavor': '42'}})
        code, said = run('run', 'demo')
        assert code == 0, said
        server = said.strip().splitlines()[-1]
        admin.wait_for(server)
        assert run('run', 'demo') == (0, server + '\n')
        code, said = run('list')
        assert code == 0 and server in said and 'running' in said, said
        code, said = run('spawn')
        assert code == 0 and server in said and said.count(': ') >= 2, said
        assert run('change', 'demo', '198.51.100.7', '4500') == (0, '')
        assert '198.51.100.7' in run('list')[1]
