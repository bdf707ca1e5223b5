"""Volume connectors: convert the connection info of a block storage into the source of a disk for QEMU.

A connector is a class with ``connect`` and ``disconnect``. Its name is the ``driver_volume_type`` in the connection
info. OURS has the connectors of this package; other packages register connectors in the entry point group GROUP.
"""
from collections.abc import Callable, Mapping
import dataclasses
import importlib.util
import os
import re
import shlex
import types
import typing

from nova import exception
from nova.hardware import disks as words
from nova.json_types import JsonObject
from nova.objects.block_device import Connection
from nova.objects.block_device import ConnectionData
from nova.runtime import entry_points
from nova.virt.libvirt.domain import chain
from nova.virt.libvirt.domain import volume_disks as disk

GROUP = 'nova.libvirt.volume_connectors'
INITIATOR_FILE = '/etc/iscsi/initiatorname.iscsi'
PORTAL = re.compile(r'\[?(?P<host>[0-9A-Za-z.:_-]+?)\]?:(?P<port>[0-9]{1,5})\Z')
HOST = re.compile(r'[0-9A-Za-z.:_-]{1,255}\Z')
KEY = re.compile(r'^\s*key\s*=\s*(\S+)', re.MULTILINE)
# pattern of authentication keys in iSCSI connection info, and the supported keys
LOGIN = re.compile('auth|chap|user|passw|secret|mutual', re.IGNORECASE)
LOGINS = {f'{prefix}auth_{what}' for prefix in ('', 'discovery_') for what in ('method', 'username', 'password')}
RECONNECT_S = 60             # seconds that a guest waits for a lost export before its reads and writes fail

_P = typing.ParamSpec('_P')
_Result = typing.TypeVar('_Result')


@dataclasses.dataclass(frozen=True)
class ConnectorOptions:
    """Options of os-brick.

    root_helper  prefix of the commands that need root; None: os-brick is not used
    multipath    whether the host's kernel uses several paths to a volume
    locks        directory of os-brick's locks
    """

    root_helper: str | None = None
    multipath: bool = False
    locks: str = '/var/lib/nova/os-brick'


class Connector:
    """Base class of connectors.

    :param kind: driver_volume_type of the connections
    :param initiator: iSCSI name of this host
    """

    brick = ConnectorOptions()

    def __init__(self, kind: str, initiator: str) -> None:
        self.kind, self.initiator = kind, initiator

    def connect(self, data: ConnectionData) -> disk.DiskSource:
        """Return the source of a disk.Volume; idempotent.

        :raises VirtError: this host does not reach the volume
        """
        raise NotImplementedError

    def disconnect(self, data: ConnectionData, device: JsonObject | None = None) -> None:
        """Disconnect a volume that is unused on this host; no error if it is not connected.

        :param device: value of 'device' in the 'connection' of the disk's source
        :raises VirtError: the volume remains connected
        """

    def extend(self, data: ConnectionData) -> None:
        """Let the host detect the new size of an extended volume, if necessary."""

    def read(self, source: disk.DiskSource) -> bytes:
        """Return the first bytes of a file source.

        :raises VirtError: the source is not a file, or is unreadable
        """
        raise _refused(f'files of {self.kind} volumes cannot be read here')

    def name_below(self, source: disk.DiskSource, name: str, form: str) -> None:
        """Correct the backing file name in a file that no QEMU has open, after libvirt has merged backing files."""


class Local(Connector):
    """File of this host."""

    def connect(self, data: ConnectionData) -> disk.DiskSource:
        return {'type': 'file', 'path': data['device_path']}

    def read(self, source: disk.DiskSource) -> bytes:
        return chain.read_file(source['path'])


class Nbd(Connector):
    """NBD export: through a Unix socket, or over the network with TLS.

    The option nbd_tls_x509_cert_dir in qemu.conf names the directory of the certificates.
    """

    def connect(self, data: ConnectionData) -> disk.DiskSource:
        made: disk.DiskSource = {'type': 'network', 'protocol': 'nbd', 'name': data.get('export') or '',
                        'reconnect_s': RECONNECT_S}
        if data.get('socket'):
            return {**made, 'socket': data['socket']}
        if not data.get('tls'):
            raise _refused('its export uses the network without TLS, so others could read its data')
        return {**made, 'hosts': [[data['host'], data['port']]], 'tls': True, 'tls_hostname': data.get('tls_hostname')}


class Rbd(Connector):
    """Image of a Ceph pool, through librbd in QEMU."""

    def connect(self, data: ConnectionData) -> disk.DiskSource:
        made: disk.DiskSource = {'type': 'network', 'protocol': 'rbd', 'name': data['name'],
                        'hosts': [list(pair) for pair in zip(data.get('hosts') or (), data.get('ports') or (),
                                                             strict=False)]}
        if data.get('auth_enabled'):
            if not data.get('secret_uuid'):
                raise _refused('its connection names no secret for cephx')
            made['auth'] = {'username': data['auth_username'], 'type': 'ceph', 'uuid': data['secret_uuid']}
            key = KEY.search(data.get('keyring') or '')
            if key:          # without a key, the operator has defined the secret in libvirt
                made['secret'] = {'usage': f'client.{data["auth_username"]} of {data["secret_uuid"]}',
                                  'value': key[1], 'base64': True}
        return made


class Iscsi(Connector):
    """iSCSI target that QEMU accesses with libiscsi; the host's kernel has no session."""

    def connect(self, data: ConnectionData) -> disk.DiskSource:
        _check_login(data)
        portal = PORTAL.match(data['target_portal'])
        if portal is None:
            raise _refused('the address of its target is invalid')
        name = f'{data["target_iqn"]}/{int(data.get("target_lun") or 0)}'
        made: disk.DiskSource = {'type': 'network', 'protocol': 'iscsi', 'name': name, 'initiator': self.initiator,
                        'hosts': [[portal['host'], int(portal['port'])]]}
        if (data.get('auth_method') or '').upper() == 'CHAP':
            made['auth'] = {'username': data['auth_username'], 'type': 'iscsi', 'usage': name}
            made['secret'] = {'usage': name, 'value': data['auth_password'], 'base64': False}
        elif data.get('auth_method'):
            raise _refused(f'{data["auth_method"]!r:.40} is not a supported authentication method')
        return made


class Nfs(Connector):
    """File of an NFS server that QEMU accesses with libnfs. The host does not mount it, because a mount can hang."""

    def connect(self, data: ConnectionData) -> disk.DiskSource:
        host, colon, directory = str(data['export']).rpartition(':/')
        host, name = host.strip('[]'), str(data['name'])
        if not (colon and HOST.match(host)) or '..' in f'{directory}/{name}'.split('/') or not name:
            raise _refused('the location of its file is invalid')
        return {'type': 'network', 'protocol': 'nfs', 'name': f'/{directory.strip("/")}/{name}'.replace('//', '/'),
                'hosts': [[host, None]]}

    def read(self, source: disk.DiskSource) -> bytes:
        return chain.read_nfs(source['hosts'][0][0], source['name'])

    def name_below(self, source: disk.DiskSource, name: str, form: str) -> None:
        """Replace the nfs:// location that QEMU has written, because the block storage supports only file names."""
        chain.name_below_nfs(source['hosts'][0][0], source['name'], name, form)


class Initiator(typing.Protocol):
    """The methods of os-brick's InitiatorConnector that this module calls."""

    def connect_volume(self, properties: ConnectionData) -> JsonObject: ...
    def disconnect_volume(self, properties: ConnectionData, device: JsonObject | None, force: bool,
                          ignore_errors: bool) -> None: ...
    def extend_volume(self, properties: ConnectionData) -> int | None: ...


class Brick(Connector):
    """Volume that the host's kernel connects; needs os-brick, which is optional."""

    def connect(self, data: ConnectionData) -> disk.DiskSource:
        if self.kind == 'iscsi':
            _check_login(data)
        device = _asked(self._connector().connect_volume, data)
        return {'type': 'block', 'path': str(device['path']),
                'connection': {'driver_volume_type': self.kind, 'data': data, 'device': device}}

    def disconnect(self, data: ConnectionData, device: JsonObject | None = None) -> None:
        # force, because os-brick heeds ignore_errors only with it, and would leave the device after a failed flush
        _asked(self._connector().disconnect_volume, data, device, force=True, ignore_errors=True)

    def extend(self, data: ConnectionData) -> None:
        _asked(self._connector().extend_volume, data)

    def _connector(self) -> Initiator:
        if importlib.util.find_spec('os_brick') is None:
            raise _refused(f'volumes of kind {self.kind} need os-brick, which is not installed on this host')
        if self.brick.root_helper is None:
            raise _refused(f'volumes of kind {self.kind} need os-brick, and [libvirt] volume_root_helper of this host '
                           'is not set')
        return _brick(self.brick).InitiatorConnector.factory(
            self.kind.upper(), self.brick.root_helper, use_multipath=self.brick.multipath)


OURS = {'local': Local, 'nbd': Nbd, 'rbd': Rbd, 'iscsi': Iscsi, 'nfs': Nfs, 'fibre_channel': Brick, 'nvmeof': Brick}
KERNEL = {'iscsi': Brick}    # for multipath, Brick replaces Iscsi, because libiscsi uses only one path


class Connectors:
    """Connectors of this package and of other installed packages.

    :param host: name of this host, for a default iSCSI name
    :param options: options of os-brick
    """

    def __init__(self, host: str, options: ConnectorOptions = ConnectorOptions()) -> None:
        self.initiator, self._host, self._options = _initiator(host), host, options
        self._made: dict[str, Connector] = {}

    def connect(self, info: Connection) -> disk.DiskSource:
        """Return the source of a connection ({'driver_volume_type', 'data'}).

        :raises VirtError: this host does not reach the volume, or does not support such connections
        """
        data = info['data']
        form = data.get('format') or chain.RAW
        kind = str(info.get('driver_volume_type'))
        if form != chain.RAW and (form != chain.QCOW2 or kind not in words.CHAINS or data.get('encrypted')):
            # the header of the file could name any file as backing file
            raise _refused(f'it is a file of the format {str(form)!r:.40}; this host opens only raw files, and '
                           f'unencrypted qcow2 files of {" and ".join(words.CHAINS)} volumes')
        limits = _limits(data.get('qos_specs') or {})        # refuse the volume before it is connected
        source = self._of(info).connect(data)
        if form == chain.QCOW2:
            source = disk.with_files(source, [(disk.files_of(source)[0][0], form)])
            source['backing_files'] = [list(each) for each in self.below(info, source)]
        if data.get('access_mode') == 'ro':
            source['readonly'] = True
        if data.get('multiattach') or info.get('multiattach'):
            source['shareable'] = True
        if data.get('encrypted'):
            source['encrypted'] = True
        source['limits'] = limits
        return source

    def below(self, info: Connection, source: disk.DiskSource) -> list[chain.File]:
        """Return the chain of backing files of a qcow2 source.

        :raises VirtError: a file is rejected or unreadable
        """
        reader = self._of(info)
        name, _form = disk.files_of(source)[0]
        directory = os.path.dirname(source['path']) if source['type'] == 'file' else None
        return chain.follow(name, lambda each: reader.read(disk.named(source, each)), directory)

    def header(self, source: disk.DiskSource) -> bytes:
        """Return the first bytes of a file of a connected source.

        :raises VirtError: the file is unreadable
        """
        return self._of_source(source).read(source)

    def name_below(self, source: disk.DiskSource, name: str, form: str) -> None:
        """Set the backing file name of a connected source; see Connector."""
        self._of_source(source).name_below(source, name, form)

    def _of_source(self, source: disk.DiskSource) -> Connector:
        return self._of_kind('local' if source['type'] == 'file' else source['protocol'])

    def disconnect(self, info: Connection) -> None:
        # pass a device only if there is one: a connector of another package may not accept this argument
        self._of(info).disconnect(info['data'], *([info['device']] if info.get('device') else []))

    def extend(self, info: Connection) -> None:
        """Let the host detect the new size of an extended volume.

        :raises VirtError: the host does not see the volume
        """
        self._of(info).extend(info['data'])

    def facts(self, address: str) -> JsonObject:
        """Return the connector properties of this host for a block storage: {'initiator', 'multipath'}.

        If os-brick is used, properties such as WWPNs and the NVMe name are added.

        :param address: address of this host
        :raises VirtError: os-brick fails
        """
        found: JsonObject = {}
        if self._options.root_helper is not None and importlib.util.find_spec('os_brick') is not None:
            found = dict(_asked(_brick(self._options).get_connector_properties, self._options.root_helper, address,
                                self._options.multipath, False, host=self._host))
        return {**found, 'initiator': self.initiator, 'multipath': self._options.multipath}

    def _of(self, info: Connection) -> Connector:
        return self._of_kind(str(info.get('driver_volume_type')))

    def _of_kind(self, kind: str) -> Connector:
        if kind not in self._made:
            points = entry_points.installed(GROUP)
            if kind not in points and kind not in OURS:
                known = ', '.join(sorted({*points, *OURS}))
                raise _refused(f'this host knows no volumes of kind {kind:.40}; it knows {known}')
            ours = {**OURS, **KERNEL} if self._options.multipath else OURS
            found = points[kind].load() if kind in points else ours[kind]
            self._made[kind] = found(kind, self.initiator)
            self._made[kind].brick = self._options
        return self._made[kind]


def _brick(options: ConnectorOptions) -> types.ModuleType:
    """Configure os-brick's lock directory and privileged daemon, and return its connector module.

    By default os-brick starts its daemon with sudo, regardless of the root helper in the calls.
    """
    import os_brick
    from os_brick.initiator import connector
    from oslo_concurrency import lockutils
    from oslo_config.cfg import CONF as GLOBAL                       # os-brick reads only the global options
    from oslo_privsep import priv_context
    os.makedirs(options.locks, exist_ok=True)
    lockutils.set_defaults(options.locks)
    os_brick.setup(GLOBAL)
    priv_context.init(root_helper=shlex.split(options.root_helper or ''))
    return connector


def _asked(function: Callable[_P, _Result], *args: _P.args, **more: _P.kwargs) -> _Result:
    """Call os-brick and return its result.

    :raises VirtError: any failure
    """
    try:
        return function(*args, **more)
    except Exception as error:
        raise exception.VirtError(operation='ask os-brick', reason=str(error)[:200]) from error


def _check_login(data: ConnectionData) -> None:
    """Check the authentication of an iSCSI connection.

    :raises VirtError: the target must authenticate itself too (mutual CHAP). QEMU, libvirt and os-brick would ignore
        this requirement without a warning
    """
    demands = sorted(key for key, value in data.items() if value and LOGIN.search(key) and key not in LOGINS)
    if demands:
        raise _refused(f'its connection has {demands[0]!r:.40}: hosts authenticate themselves to an iSCSI target, but '
                       'cannot authenticate the target (mutual CHAP)')


def _limits(specs: Mapping[str, str]) -> dict[str, int]:
    """Return {name in disk.LIMITS: number} of the front-end QoS specs, which the hypervisor enforces.

    Other keys in the specs are for the driver of the block storage.
    :raises VirtError: a value for the hypervisor is not a number
    """
    found = {}
    for name in disk.LIMITS:
        value = str(specs.get(name, 0))
        if not re.fullmatch('[0-9]{1,18}', value):
            raise _refused(f'its QoS spec {name} is {value!r:.40}, which is not a number')
        if int(value):
            found[name] = int(value)
    return found


def _initiator(host: str) -> str:
    try:
        with open(INITIATOR_FILE) as file:
            found = re.search(r'^InitiatorName=(\S+)', file.read(), re.MULTILINE)
    except OSError:
        found = None
    return found[1] if found else 'iqn.2005-03.org.open-iscsi:' + re.sub('[^0-9a-z.-]', '-', host.lower())


def _refused(reason: str) -> exception.VirtError:
    return exception.VirtError(operation='attach the volume', reason=reason)
