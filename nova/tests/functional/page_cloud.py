"""A cloud for the commands of documentation pages: what ``tools/quickstart.sh`` makes, on the fake driver.

Each page has its own project and directory. ``openstack`` and ``aws`` are small programs in front of clients that stay
loaded (nova.tests.warm_client).
"""
import json
import os
import pathlib
import shutil
import socketserver
import subprocess
import sys
import threading

import yaml

from nova.tests import documentation
from nova.tests import warm_client

TREE = pathlib.Path(__file__).resolve().parents[3]
DEBIAN_PYTHON = '/usr/bin/python3'           # runs Debian's awscli
CALL = '''#!{python} -IS
import json, os, socket, sys
call = socket.socket(socket.AF_UNIX)
call.connect({path!r})
call.sendall(json.dumps([{name!r}, sys.argv[1:], dict(os.environ), os.getcwd()]).encode() + b'\\n')
status, text = json.loads(call.makefile().readline())
sys.stdout.write(text)
sys.exit(status)
'''
MANAGE = '''#!/bin/sh
export PYTHONPATH={tree}
exec {python} -W ignore -c 'import sys; from {module} import main; sys.exit(main())' "$@" {options}
'''
MODULES = {'nova-manage': 'nova.cmd.manage.main', 'nova-policy': 'nova.cmd.policy', 'nova-status': 'nova.cmd.status'}


class Programs(socketserver.ThreadingUnixStreamServer):
    """The programs of a directory: clients, and commands of administrators with a configuration file."""
    daemon_threads = True

    def __init__(self, directory, config):
        path = str(directory / 'socket')
        super().__init__(path, _Call)
        self.turn = threading.Lock()
        for name in ('openstack', 'aws'):
            self._write(directory / name, CALL.format(python=sys.executable, path=path, name=name))
        for name, module in MODULES.items():
            self._write(directory / name, MANAGE.format(tree=TREE, python=sys.executable, module=module,
                                                        options=f'--config-file {config}'))
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()

    @staticmethod
    def _write(path, text):
        path.write_text(text)
        path.chmod(0o755)

    def close(self):
        self.shutdown()
        self.server_close()


class _Call(socketserver.StreamRequestHandler):
    """One command of a client."""

    def handle(self):
        program, arguments, environ, directory = json.loads(self.rfile.readline())
        with self.server.turn:
            interpreter = DEBIAN_PYTHON if program == 'aws' else sys.executable
            answer = warm_client.client(program, interpreter).run(arguments, environ, directory)
        self.wfile.write(json.dumps(answer).encode() + b'\n')


class PageCloud:
    """A cloud with the image, the network and the programs that pages use.

    :param cloud: a running nova.tests.functional.cloud.Cloud
    :param directory: for programs, users and files
    """

    def __init__(self, cloud, directory):
        self.cloud, self.directory, self.admin = cloud, directory, cloud.admin('2.104')
        self.bin, config = directory / 'bin', directory / 'nova.conf'
        self.bin.mkdir()
        config.write_text(f'[DEFAULT]\nstate_path = {cloud.state_path}\nhost = host1\ncompute_driver = fake\n'
                          '[network]\ndriver = fake\n')
        self.programs = Programs(self.bin, config)
        self.admin.upload_image(name='guest', visibility='public')
        network = self._made('/network/v2.0/networks', network={'name': 'public', 'router:external': True})
        self._made('/network/v2.0/subnets', subnet={'network_id': network['id'], 'cidr': '172.24.4.0/24',
                                                    'ip_version': 4, 'enable_dhcp': False})

    def _made(self, path, **body):
        answer = self.admin.post(path, body)
        assert answer.status_code == 201, answer.text
        return next(iter(answer.json().values()))

    def member(self, name, password):
        """Make a user with a project, both of a name; the entry for clouds.yaml."""
        project = self._made('/identity/v3/projects', project={'name': name})['id']
        user = self._made('/identity/v3/users', user={'name': name, 'password': password})['id']
        role = self.admin.get('/identity/v3/roles?name=member').json()['roles'][0]['id']
        assert self.admin.put(f'/identity/v3/projects/{project}/users/{user}/roles/{role}').ok
        found = yaml.safe_load(self.cloud.clouds_yaml.read_text())['clouds']['nova-demo']
        return {**found, 'auth': {**found['auth'], 'username': name, 'password': password, 'project_name': name}}

    def run(self, page, commands, role, seconds=documentation.SECONDS, **environ):
        """Run commands of a page in its project.

        :param role: nova-demo or nova-admin, for clients without --os-cloud
        :param seconds: timeout of all commands
        :param environ: further variables
        """
        name = page.replace('/', '-')
        home = self.directory / name
        (home / '.ssh').mkdir(parents=True)
        known = yaml.safe_load(self.cloud.clouds_yaml.read_text())['clouds']
        known |= {'nova-demo': self.member(name, 'old-password-1'), 'other': self.member(f'{name}-other', 'other-pw-1')}
        (home / 'all-clouds.yaml').write_text(yaml.safe_dump({'clouds': known}))
        other = self.admin.get(f'/identity/v3/projects?name={name}-other').json()['projects'][0]['id']
        subprocess.run(['ssh-keygen', '-q', '-t', 'ed25519', '-N', '', '-f', home / '.ssh' / 'id_ed25519'], check=True)
        self._disks(home)
        for file, text in documentation.files(documentation.read(page)).items():
            (home / file).write_text(self._here(text, home))
        variables = {'PATH': f'{self.bin}:{os.environ["PATH"]}', 'HOME': str(home), 'LANG': 'C.UTF-8', 'OS_CLOUD': role,
                     'OS_CLIENT_CONFIG_FILE': str(home / 'all-clouds.yaml'), 'OTHER_PROJECT': other,
                     'OLD': 'old-password-1', 'NEW': 'new-password-2', 'AWS_EC2_METADATA_DISABLED': 'true',
                     'AWS_PAGER': '', 'AWS_MAX_ATTEMPTS': '1', **environ}
        return documentation.run([documentation.Command(each.place, self._here(each.text, home), each.output)
                                  for each in commands], home, variables, seconds)

    @staticmethod
    def _disks(home):
        """The disk images that pages upload or convert."""
        if shutil.which('qemu-img'):
            for name in ('debian-13.qcow2', 'appliance.vmdk', 'disk.img'):
                kind = {'img': 'raw'}.get(name.rpartition('.')[2], name.rpartition('.')[2])
                subprocess.run(['qemu-img', 'create', '-q', '-f', kind, home / name, '1M'], check=True)

    def _here(self, text, home):
        """A text of a page with the addresses and files of this cloud."""
        for ours, theirs in (('http://127.0.0.1:8774', self.cloud.url), ('https://CLOUD:8774', self.cloud.url),
                             ('/var/lib/nova/clouds.yaml', str(home / 'all-clouds.yaml')),
                             ('/mnt/backup', str(home)), ('/root/backup-passphrase', str(home / 'backup-passphrase'))):
            text = text.replace(ours, theirs)
        return text
