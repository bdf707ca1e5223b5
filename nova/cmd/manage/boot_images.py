"""nova-manage vm check_boot_images: find servers with a kernel or ramdisk that their project may not see.

Earlier releases did not check the owner: see doc/source/admin/security-references.rst.
"""
from __future__ import annotations

from typing import Literal, Protocol, TYPE_CHECKING

from nova.cmd import tables
from nova.cmd.command_line import flag

if TYPE_CHECKING:
    from oslo_config import cfg

    from nova.db import engine
    from nova.db.cells import cells as db_cells
    from nova.image.api import Images

FOUND, UNSURE = 'not visible to the project', 'shared by another project: look at its members'
KINDS: tuple[Literal['kernel_id', 'ramdisk_id'], ...] = ('kernel_id', 'ramdisk_id')


def check_boot_images(conf: cfg.ConfigOpts, detach: bool) -> int:
    """List servers whose kernel or ramdisk image is not visible to their project. Exit code 1: such servers exist."""
    from nova.cloud import assembly
    api_db, cells = assembly.checked_databases(conf)
    verdict = _Verdict(assembly.images(conf, api_db), conf.image.backend == 'embedded')
    found, down = cells.scatter(lambda cell: _of_cell(cell, verdict))
    rows = [(cell, *row) for cell, listed in found for row in listed]
    mended = []
    for cell, server, _kind, image_id, why in rows:
        if detach and why == FOUND and cell.db.run(_detach, server.uuid, image_id):
            mended.append(server.uuid)
    tables.print_table(('Server', 'Project', 'Cell', 'What', 'Image', 'Found', 'Detached'), [
        (server.uuid, server.project_id, cell.name, kind, image_id, why, 'yes' if server.uuid in mended else 'no')
        for cell, server, kind, image_id, why in rows])
    if mended:
        print('Stop and start these servers, so that their guests close the files.')
    return int(bool(down) or any(server.uuid not in mended for _cell, server, *_rest in rows))


def _of_cell(cell: db_cells.Cell, verdict: _Verdict) -> list[tuple[_Server, str, str, str]]:
    from nova.db.servers import instances
    with cell.db.reader() as conn:
        servers = instances.with_boot_images(conn)
    return [(server, kind, getattr(server, kind), why) for server in servers for kind in KINDS
            if getattr(server, kind) and (why := verdict.of(server, getattr(server, kind)))]


class _Server(Protocol):
    uuid: str
    project_id: str
    user_id: str


class _Verdict:
    """Checks the images of servers.

    :param answers: whether ``images`` can check as the server's project; Glance would require a token of the user
    """

    def __init__(self, images: Images, answers: bool) -> None:
        self._images, self._answers = images, answers

    def of(self, server: _Server, image_id: str) -> str | None:
        """Return the problem of a server's image, or None if it is allowed or does not exist any more."""
        from nova import context
        from nova import exception
        try:
            image = self._images.show(context.admin_context(), image_id)
        except exception.ImageNotFound:
            return None
        if image['visibility'] in ('public', 'community') or image['owner'] == server.project_id:
            return None
        if image['visibility'] != 'shared' or not self._answers:
            return UNSURE if image['visibility'] == 'shared' else FOUND
        owner = context.RequestContext(project_id=server.project_id, user_id=server.user_id, roles=['member'],
                                       overwrite=False)
        try:
            self._images.show(owner, image_id)
        except exception.ImageNotFound:
            return FOUND
        return None


def _detach(conn: engine.Connection, uuid: str, image_id: str) -> bool:
    """Remove a kernel (with its ramdisk) or a ramdisk from a server's row. False: the row has another image now."""
    from nova.db.servers import instances
    instances.lock(conn, uuid)
    row = instances.get(conn, uuid)
    gone = [kind for kind in KINDS if row[kind] == image_id]
    if 'kernel_id' in gone:
        gone = list(KINDS)                   # the guest cannot start with only a ramdisk
    if not gone:
        return row['kernel_id'] is None      # removed with the kernel
    properties = {name: value for name, value in (row['image_properties'] or {}).items() if name not in gone}
    instances.update(conn, uuid, {**dict.fromkeys(gone), 'image_properties': properties})
    return True


COMMANDS = {'check_boot_images': check_boot_images}
OPTIONS = {check_boot_images: {'--detach': flag('remove such images from the records of the servers')}}
EXIT_CODES = {check_boot_images: {1: 'such servers exist and were not repaired, or a cell is down'}}
