"""What tests share with nova/tests/integration/test_volume_exports.py."""
import shutil
import subprocess

import pytest

from nova import conf as nova_conf
from nova.runtime import certificates
from nova.tests import ports
from nova.tests.support import volume_files as test_volume_files
from nova.volume import embedded
from nova.volume.exports import daemon

pytestmark = pytest.mark.skipif(shutil.which(daemon.PROGRAM) is None, reason='needs qemu-storage-daemon')

ALICE, SERVER, GIB = test_volume_files.ALICE, test_volume_files.SERVER, test_volume_files.GIB
CLOSED = 1                   # exit code of qemu-io when it cannot open its disk


class Home(test_volume_files.Home):
    port = None

    def start(self):
        self.port = self.port or ports.free(ports.EXPORTS, needed=3)
        if hasattr(self, 'volumes'):
            self.volumes.stop(5)
        conf = nova_conf.new(files=[], host='h1', state_path=str(self.directory), my_ip='127.0.0.1',
                             volume__export_port=self.port, libvirt__sandbox_qemu_img=False, image__free_disk_reserve=0)
        self.volumes = embedded.EmbeddedVolumes(conf, self.db, self.images)
        self.volumes.recover()
        return self.volumes

    def connector(self, host):
        return {'host': host, 'ip': f'192.0.2.{host[1:]}'}

    def attached(self, volume_id, host='h2', server=SERVER):
        """(id of an attachment, how the host reaches it)."""
        attachment = self.volumes.attach(ALICE, volume_id, server)
        info = self.volumes.connect(ALICE, attachment, self.connector(host), '/dev/vdb')
        self.volumes.complete(ALICE, attachment)
        return attachment, info['data']

    def certificate(self, name):
        """A directory as QEMU's client wants it."""
        authority = certificates.Authority(self.directory / 'tls')
        made, directory = authority.pair(name, [name], use=certificates.CLIENT), self.directory / f'client-{name}'
        if directory.exists():           # several use it at once
            return directory
        directory.mkdir()
        for source, target in ((authority.trusted, 'ca-cert.pem'), (made.certificate, 'client-cert.pem'),
                               (made.key, 'client-key.pem')):
            shutil.copyfile(source, directory / target)
        return directory

    def client(self, name, data, *commands, tls=True):
        """qemu-io as host ``name``: (exit code, what it printed)."""
        target = (f'driver=nbd,server.type=inet,server.host={data["host"]},server.port={data["port"]},'
                  f'export={data["export"]}')
        with_tls = ['--object', f'tls-creds-x509,id=tls,endpoint=client,verify-peer=on,dir={self.certificate(name)}']
        done = subprocess.run(
            ['qemu-io', *(with_tls if tls else ()), *(word for each in commands for word in ('-c', each)),
             '--image-opts', target + (',tls-creds=tls' if tls else '')], capture_output=True, text=True, timeout=60)
        return done.returncode, done.stdout + done.stderr

    def daemons(self):
        """Pids of the daemons of this deployment."""
        found = subprocess.run(['pgrep', '-f', f'^[^ ]*{daemon.PROGRAM} .*{self.directory}'], capture_output=True,
                               text=True).stdout.split()
        return [int(pid) for pid in found]
