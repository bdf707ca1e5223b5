"""What tests share with nova/tests/integration/test_libvirt_nfs.py."""
import os
import pathlib
import shutil
import socket
import subprocess
import threading

from nova.tests.support import libvirt as test_libvirt
from nova.virt.libvirt.volumes import probe

PROGRAMS = ('ganesha.nfsd', 'rpcbind', 'unshare')
PORTMAPPER, MOUNTS = 111, 20048
SOCKET = pathlib.Path('/run/rpcbind.sock')
CONFIGURATION = '''
NFS_CORE_PARAM {{ Bind_Addr = 127.0.0.1; NFS_Port = {port}; MNT_Port = {mounts}; Enable_NLM = false; Enable_UDP = false;
                  Enable_RQUOTA = false; Protocols = 3; allow_set_io_flusher_fail = true; }}
NFSV4 {{ RecoveryRoot = {directory}/recovery; }}
EXPORT {{ Export_Id = 1; Path = {files}; Pseudo = /files; Access_Type = RW; Squash = No_Root_Squash;
          SecType = sys; Protocols = 3; Transports = TCP; PrivilegedPort = false; FSAL {{ Name = VFS; }} }}
'''


class Server:
    """ganesha on loopback. rpcbind listens nowhere but at its socket and in a namespace; libnfs asks it by a relay."""

    def __init__(self, directory, files=None):
        self.directory, self.files = directory, files or directory / 'files'
        self.files.mkdir(exist_ok=True)
        (directory / 'recovery').mkdir()
        configuration = directory / 'ganesha.conf'
        configuration.write_text(CONFIGURATION.format(port=probe.NFS_PORT, mounts=MOUNTS, directory=directory,
                                                      files=self.files))
        self._listener = socket.create_server(('127.0.0.1', PORTMAPPER))
        threading.Thread(target=self._relay, daemon=True).start()
        SOCKET.unlink(missing_ok=True)           # of one that was killed: ganesha ends where no rpcbind answers
        with open(directory / 'log', 'w') as log:
            self._rpcbind = subprocess.Popen(['unshare', '--net', 'rpcbind', '-f'], stdout=log, stderr=log)
            test_libvirt.wait_for(SOCKET.exists, 20, 'rpcbind')
            self.process = subprocess.Popen(
                ['ganesha.nfsd', '-F', '-f', configuration, '-L', directory / 'ganesha.log', '-p', directory / 'pid'],
                stdout=log, stderr=log)
        try:
            test_libvirt.wait_for(self._serves, 30, 'ganesha')
        except AssertionError:
            self.stop()
            raise

    @staticmethod
    def _serves():
        with socket.socket() as tried:
            return not tried.connect_ex(('127.0.0.1', probe.NFS_PORT))

    def _relay(self):
        while True:
            try:
                asks = self._listener.accept()[0]
            except OSError:
                return
            knows = socket.socket(socket.AF_UNIX)
            knows.connect(str(SOCKET))
            for source, target in ((asks, knows), (knows, asks)):
                threading.Thread(target=_pump, args=(source, target), daemon=True).start()

    def stop(self):
        for process in (self.process, self._rpcbind):
            process.kill()
            process.wait()
        self._listener.shutdown(socket.SHUT_RDWR)        # or the port is taken for as long as a thread waits at it
        self._listener.close()


def _pump(source, target):
    try:
        while found := source.recv(65536):
            target.sendall(found)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        pass


def missing():
    """Why there is no NFS here; None: there is."""
    absent = [name for name in PROGRAMS if shutil.which(name) is None]
    if absent or not list(pathlib.Path('/usr/lib').glob('*/qemu/block-nfs.so')):
        return f'not installed: {absent or "the NFS driver of QEMU (qemu-block-extra)"}'
    return None


def connection(path):
    """As Cinder tells it of its NFS driver."""
    return {'driver_volume_type': 'nfs', 'data': {
        'export': f'127.0.0.1:{os.path.dirname(path)}', 'name': os.path.basename(path), 'options': None,
        'format': 'raw'}}
