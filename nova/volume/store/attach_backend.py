"""Access of hosts to embedded volumes: local files on the volume host, NBD exports with TLS elsewhere."""
from collections.abc import Callable
import os
import pathlib
from typing import TypedDict

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from oslo_config.cfg import ConfigOpts

from nova import exception
from nova.db.engine import Database
from nova.db.tables.rows import VolumesRow
from nova.db.volumes import qos
from nova.db.volumes import volumes as db
from nova.json_types import JsonObject
from nova.runtime import certificates
from nova.runtime import durable_files
from nova.runtime import host_identity
from nova.runtime import tls
from nova.volume import api
from nova.volume.exports import exporter
from nova.volume.store import files as volume_files

CLOSING = 'closing'              # status of an attachment while its export is being closed
PREVIOUS_HOST = 'previous_host'  # key in a connector: the previous host, until its export is closed
# {file in [volume] export_tls_dir: function(content) that raises ValueError if the content is invalid}
_CREDENTIALS: dict[str, Callable[[bytes], object]] = {
    'ca-cert.pem': x509.load_pem_x509_certificate, 'server-cert.pem': x509.load_pem_x509_certificate,
    'server-key.pem': lambda data: serialization.load_pem_private_key(data, None)}
EXPORTS, CREDENTIALS = 'exports', 'tls'
CERTIFICATE = 'volumes'          # name of the certificate for exports, issued by the deployment's authority
# An export daemon runs as long as its host has volumes, and uses one certificate all that time. So the certificate is
# valid almost as long as the certificate of the authority.
CERTIFICATE_DAYS = certificates.AUTHORITY_RENEWAL_DAYS - 1


class Access(TypedDict):
    """Connection info for a host, without the host name."""

    driver_volume_type: str
    data: JsonObject


class EmbeddedAttachBackend:
    """Access of hosts to volumes: to files on the volume host, to exports on other hosts.

    :param conf: uses [volume], host, my_ip and state_path
    :param database: the API database
    """

    def __init__(self, conf: ConfigOpts, database: Database, files: volume_files.VolumeFiles) -> None:
        self._conf, self._db, self._files = conf, database, files
        self._directory = os.path.join(files.directory, EXPORTS)
        self.exports = exporter.Exporter(self._directory, conf.my_ip, conf.volume.export_port, self._credentials,
                                         self._wanted, self._ending)

    def check_credentials(self) -> None:
        """Check the configured certificate files when the service starts.

        :raises InvalidInput: a file in [volume] export_tls_dir is missing or invalid
        """
        directory = self._conf.volume.export_tls_dir
        for name, load in _CREDENTIALS.items() if directory else ():
            path = os.path.join(directory, name)
            try:
                with open(path, 'rb') as file:
                    load(file.read())
            except (OSError, ValueError, TypeError) as error:
                why = error.strerror if isinstance(error, OSError) else 'it is not in the PEM format'
                raise exception.InvalidInput(f'[volume] export_tls_dir: cannot use {path}: {why}.') from None

    def is_export(self, connector: api.Connector | None) -> bool:
        """Return whether the connector's host accesses volumes through exports, which ``close`` must close."""
        if not connector:
            return False
        return connector.get('host') != self._conf.host and connector.get('ip') not in (None, self._conf.my_ip)

    def check(self, connector: api.Connector) -> None:
        """Check that the connector's host can access volumes; raises InvalidVolume."""
        if self.is_export(connector):
            self.exports.check(connector.get('host'))

    def open(self, row: VolumesRow, attachment_id: str, connector: api.Connector) -> Access:
        """Give a host access to a volume; raises InvalidVolume."""
        common: JsonObject = {'volume_id': row['id'], 'access_mode': 'ro' if row['readonly'] else 'rw',
                  'multiattach': bool(row['multiattach']), 'encrypted': row['key_id'] is not None}
        with self._db.reader() as conn:
            limits = qos.of_type(conn, row['volume_type'])
        if limits:
            common['qos_specs'] = {**limits}
        if not self.is_export(connector):
            if self._files.size(self._files.volume(row['id'])) is None:
                raise exception.InvalidVolume(reason='the file of the volume is not on this host.')
            return {'driver_volume_type': 'local', 'data': {
                **common, 'device_path': self._files.volume(row['id']), 'format': 'raw'}}
        made = self.exports.open(attachment_id, str(connector['host']))
        return {'driver_volume_type': 'nbd', 'data': {**common, **made, 'tls': True}}

    def close(self, attachment_id: str, connector: api.Connector) -> None:
        """Close the export of an attachment."""
        self.exports.close(attachment_id, str(connector['host']))

    def complete_extension(self, row: VolumesRow) -> None:
        """Extend the file of an unattached volume whose guest's host did not do so while the volume was attached."""
        if not row['key_id']:            # an encrypted volume is not extended while it is attached
            self._files.complete_extension(row['id'], row['size'])       # the detachment does not fail if this does

    def copy(self, attachment_id: str, connector: api.Connector, path: str) -> None:
        """Write a point-in-time copy of an exported volume to a qcow2 file while the guest runs.

        :raises InvalidVolume: the copy failed
        """
        self.exports.copy(attachment_id, str(connector['host']), path)

    def _wanted(self, attachment_id: str | None) -> list[exporter.DesiredExport]:
        found = []
        with self._db.reader() as conn:
            for row in db.connected(conn, attachment_id):
                connector = row['connector']
                if row['status'] != CLOSING and self.is_export(connector):
                    found.append(exporter.DesiredExport(
                        row['id'], str(connector['host']), self._files.volume(row['volume_id']), bool(row['readonly'])))
        return found

    def _ending(self) -> set[tuple[str, str]]:
        with self._db.reader() as conn:
            found = db.connected(conn)
        return {(host, row['id']) for row in found for host in (
            row['connector'].get('host') if row['status'] == CLOSING else None,
            row['connector'].get(PREVIOUS_HOST)) if host is not None}

    def _credentials(self) -> str:
        """Return the directory with QEMU's certificate files. By default the deployment's authority issues them."""
        if self._conf.volume.export_tls_dir:
            return str(self._conf.volume.export_tls_dir)
        authority = certificates.Authority(pathlib.Path(host_identity.state_path(self._conf)) / tls.DIRECTORY)
        pair = authority.pair(CERTIFICATE, [self._conf.my_ip], CERTIFICATE_DAYS)
        directory = os.path.join(self._directory, CREDENTIALS)
        os.makedirs(directory, mode=0o700, exist_ok=True)
        for source, name in ((authority.trusted, 'ca-cert.pem'), (pair.certificate, 'server-cert.pem'),
                             (pair.key, 'server-key.pem')):
            durable_files.replace(os.path.join(directory, name), pathlib.Path(source).read_bytes())
        return directory
