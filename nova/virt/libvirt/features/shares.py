"""Shared file systems of guests by virtiofs. A share can be attached and detached only while the guest is off.

The guest's record has share_id, tag, directory and program of each share. The file <directory>.json has the export
location, which nova-virtiofsd reads when libvirt starts it (nova/virt/virtiofsd.py). Another file has the access key,
if the share has a key. Only the owner and root can read both files.
"""
import contextlib
import os
import shutil
from typing import Any, NotRequired, TypedDict

from nova import exception
from nova.objects.block_device import DetachedShare
from nova.objects.block_device import Share
from nova import states
from nova.context import RequestContext
from nova.disk_files import files
from nova.objects.instance import Instance
from nova.runtime import durable_files
from nova.runtime import programs
from nova.runtime import versioned_records
from nova.virt import share_exports as exports
from nova.virt import virtiofsd
from nova.virt.libvirt.guests import Guests

PROGRAM = 'nova-virtiofsd'
DIRECTORY_MODE = 0o711
ShareRecord = TypedDict('ShareRecord', {'protocol': str, 'export_location': str, 'user': NotRequired[str | None]})
FORMAT = versioned_records.RecordFormat[ShareRecord](
    name='record of a share', version=virtiofsd.VERSION, fields=frozenset(ShareRecord.__annotations__),
    required=ShareRecord.__required_keys__)


class Shares:
    """Feature Shares.

    :param program: path of nova-virtiofsd, or None to search for the program
    """

    def __init__(self, guests: Guests, program: str | None) -> None:
        self._guests, self._storage, self._hypervisor = guests, guests.storage, guests.hypervisor
        self._configured_program = program

    def attach_share(self, context: RequestContext, instance: Instance, share: Share) -> None:
        uuid, program = instance.uuid, self._program()
        access = share.get('access') or {}
        try:
            exports.check(share['protocol'], share['export_location'])
            exports.check_access(share['protocol'], access.get('user'), access.get('key'))
            virtiofsd.server()
            if share['protocol'] == exports.CEPHFS and not shutil.which(exports.CEPH_FUSE):
                raise ValueError(f'{exports.CEPH_FUSE} is not a program of this host.')
        except ValueError as error:
            raise _refusal(str(error)) from None
        with self._guests.operation(uuid):
            self._check_off(uuid)
            guest = self._guests.record(uuid)
            directory = self._storage.path(uuid, exports.PREFIX + share['share_id'])
            if not exports.is_name(os.path.basename(directory)):
                raise _refusal('the id of the share is not a UUID.')
            with contextlib.suppress(FileExistsError):
                os.mkdir(directory)
            os.chmod(directory, DIRECTORY_MODE)          # a crash may have prevented an earlier chmod
            if access:
                durable_files.replace(directory + virtiofsd.KEY, access['key'].encode())
            FORMAT.write(directory + '.json', {
                'protocol': share['protocol'], 'export_location': share['export_location'], 'user': access.get('user')})
            guest.shares = [*_others(guest.shares, share), {
                'share_id': share['share_id'], 'tag': share['tag'], 'directory': directory, 'program': program}]
            self._storage.save(guest)

    def detach_share(self, context: RequestContext, instance: Instance, share: DetachedShare) -> None:
        uuid = instance.uuid
        with self._guests.operation(uuid):
            try:
                guest = self._guests.record(uuid)
            except exception.GuestNotFound:
                return
            if any(each['share_id'] == share['share_id'] for each in guest.shares):
                self._check_off(uuid)
                guest.shares = _others(guest.shares, share)
                self._storage.save(guest)
            directory = self._storage.path(uuid, exports.PREFIX + share['share_id'])
            files.remove(directory + '.json')
            files.remove(directory + virtiofsd.KEY)
            with contextlib.suppress(FileNotFoundError):
                os.rmdir(directory)

    def _program(self) -> str:
        """Return the path of nova-virtiofsd, which libvirt runs.

        :raises VirtError: the program is not installed
        """
        found = self._configured_program or programs.installed(PROGRAM)
        if not found or not os.access(found, os.X_OK):
            raise _refusal(f'{found or PROGRAM} is not a program of this host; see [libvirt] virtiofsd_path.')
        return found

    def _check_off(self, uuid: str) -> None:
        """Check that a guest is off.

        :raises VirtError: the guest is not off
        """
        with contextlib.suppress(exception.GuestNotFound):
            if self._hypervisor.power_state(uuid) != states.SHUTDOWN:
                raise _refusal('the guest is not off.')


def _others(shares: list[dict[str, Any]], share: DetachedShare) -> list[dict[str, Any]]:
    return [each for each in shares if each['share_id'] != share['share_id']]


def _refusal(reason: str) -> exception.VirtError:
    return exception.VirtError(operation='change shares of a guest', reason=reason.rstrip('.'))
