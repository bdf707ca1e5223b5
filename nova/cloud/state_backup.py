"""Backup and restore of the control plane: databases, keys, certificates, configuration, and optionally images.

Members of a backup file (nova.runtime.backup_file):

    databases/<api or uuid of a cell>/<table>/<number>    a batch of rows, compressed JSON: {"columns": …, "rows": …}
    files/<name of a part>[/<path>]                       see parts()
    configuration/<number>/<name>                         the configuration files and policies
    images/<id of the data>                               data of an image, with --images
"""
from collections.abc import Callable, Collection, Iterator
import contextlib
import dataclasses
import json
import logging
import os
import pathlib
import shutil
import stat
import time
from typing import Any, BinaryIO
import uuid as uuidlib
import zlib

from oslo_config import cfg

from nova import exception
from nova import policies
from nova import utils
from nova.cloud import assembly
from nova.db import engine
from nova.db import errors
from nova.db import state_backup as rows
from nova.db.cells import cells as db_cells
from nova.db.cells import urls as cell_urls
from nova.db.images import images as db_images
from nova.db.services import services
from nova.runtime import backup_file
from nova.runtime import directories
from nova.runtime import disk_space
from nova.runtime import durable_files
from nova.runtime import encrypted_passwords
from nova.runtime import host_identity
from nova.runtime import release
from nova.runtime import secret_encryption
from nova.runtime import state_directory
from nova.runtime import tls

LOG = logging.getLogger(__name__)

API = 'api'
MAX_FILE, MAX_FILES = 16 << 20, 64 << 20           # maximum bytes in memory: of one file, and of all files
MAX_BATCH = 256 << 20                               # maximum bytes of an uncompressed batch
PIECE = 1 << 20
CONFIGURATION = 'restored-configuration'             # below the state path
STAGED, BEFORE = '.restoring', '.before-restore'     # suffixes of new and of replaced files in a restore
REPLACE = '--replace-existing-state'
# parts that are files, not directories
SINGLE = frozenset({'driver', 'clouds.yaml', secret_encryption.FILE, encrypted_passwords.FILE})
ROOM = 64 << 20                                      # bytes of disk space that must stay free after a restore


def parts(conf: cfg.ConfigOpts) -> dict[str, pathlib.Path]:
    """Return {name in a backup: absolute path} of the deployment's small files and directories on this host.

    A part may be inside of another one, or the same. A backup then has its files twice, so that a restore with another
    configuration finds them, too.
    """
    state = state_path(conf)
    found = {name: state / name for name in ('keys', tls.DIRECTORY, host_identity.DIRECTORY, 'driver', 'clouds.yaml',
                                             encrypted_passwords.FILE)}
    found['CA'] = pathlib.Path(conf.crypto.ca_path or state / 'CA')
    found['CA-keys'] = pathlib.Path(conf.crypto.keys_path or found['CA'] / 'private')
    found[secret_encryption.FILE] = pathlib.Path(secret_encryption.path_of(conf))
    return {name: place.absolute() for name, place in found.items()}


def _outermost(conf: cfg.ConfigOpts, name: str) -> pathlib.Path:
    """Return the path of the outermost part that contains a part, which may be the part itself."""
    places = parts(conf)
    return min((place for place in places.values() if place == places[name] or place in places[name].parents),
               key=lambda place: len(place.parts))


def state_path(conf: cfg.ConfigOpts) -> pathlib.Path:
    """Return the absolute state directory."""
    return pathlib.Path(os.path.abspath(host_identity.state_path(conf)))


def _images(conf: cfg.ConfigOpts) -> pathlib.Path | None:
    """Return the directory of the embedded image store, or None if the images are elsewhere."""
    if conf.image.backend != 'embedded':
        return None
    return pathlib.Path(conf.image.directory or state_path(conf) / 'images')


# ---- backup

@dataclasses.dataclass(frozen=True)
class BackupResult:
    """Result of ``create``."""

    size: int                            # bytes of the file
    row_count: int
    image_count: int
    lost_images: list[str]               # ids of image data that was deleted during the copy


def create(conf: cfg.ConfigOpts, api_db: engine.Database, cells: db_cells.Cells, path: str,
           passphrase: str | None = None, with_images: bool = False) -> BackupResult:
    """Write a consistent backup of the running control plane.

    :param path: of the file; an existing one is replaced when the new one is complete
    :param passphrase: None: the file is not encrypted
    :raises InvalidInput: the deployment has no image data to copy, or the file cannot be written, or a file of the
        deployment cannot be read
    :raises Unavailable: a cell does not answer
    """
    if with_images and _images(conf) is None:
        raise exception.InvalidInput('The images are in Glance, and a backup can only include embedded images. Omit '
                                     '--images.')
    made: list[BackupResult] = []

    def write(file: BinaryIO) -> None:
        made.append(_write(conf, api_db, cells, backup_file.Writer(file, passphrase), with_images))
    try:
        backup_file.write_whole(path, write)
        return dataclasses.replace(made[0], size=os.stat(path).st_size)
    except OSError as error:
        source = os.fspath(error.filename or path)
        failed = f'{path} cannot be written' if source == path or source.endswith(durable_files.PART) else (
            f'{source} cannot be read')
        raise exception.InvalidInput(f'{failed}: {error.strerror}.') from None


def _write(conf: cfg.ConfigOpts, api_db: engine.Database, cells: db_cells.Cells, writer: backup_file.Writer,
           with_images: bool) -> BackupResult:
    names = {cell.uuid: cell for cell in cells.all()}
    databases = [api_db, *(_reached(cell) for cell in names.values())]
    small: dict[str, bytes] = {}
    origins: dict[str, str] = {}
    manifest: dict[str, Any] = {'release': release.VERSION, 'host': conf.host, 'databases': [],
                                'configuration': origins}

    def read_files() -> None:
        manifest['created_at'] = utils.isotime(utils.utcnow())
        small.update(_small_files(conf))
    count = 0
    with rows.moment(databases, read_files) as connections:
        for name, conn in zip((API, *names), connections):
            branch = _branch(name)
            manifest['databases'].append({
                'name': name, 'revision': rows.revision(conn, branch),
                'cell': names[name].name if name in names else None,
                'default': name in names and names[name] is cells.default})
            for number, (table, columns, batch) in enumerate(rows.batches(conn, branch)):
                count += len(batch)
                text = json.dumps({'columns': columns, 'rows': batch}, separators=(',', ':'))
                writer.add(f'databases/{name}/{table}/{number:06d}', zlib.compress(text.encode(), 1))
                time.sleep(0)                # let other green threads serve requests
        wanted = sorted(db_images.data_ids(connections[0])) if with_images else []
    for number, configured in enumerate(_configuration(conf)):
        member = f'configuration/{number}/{backup_file.name_of(configured.name)}'
        small[member], origins[member] = _read_small(configured), str(configured)
    for member, data in small.items():
        writer.add(member, data)
    lost = [data_id for data_id in wanted if not _add_image(conf, writer, data_id)]
    writer.finish({**manifest, 'images': with_images, 'lost_images': lost})
    return BackupResult(0, count, len(wanted) - len(lost), lost)


def _branch(name: str) -> str:
    return 'api' if name == API else 'cell'


def _reached(cell: db_cells.Cell) -> engine.Database:
    try:
        cell.db.ping()
    except db_cells.UNREACHABLE as error:
        raise exception.Unavailable(f'The database of cell {cell.name} does not answer ({errors.reason(error)}): a '
                                    'backup without it would lack its servers. Try again when it is back.') from None
    return cell.db


def _small_files(conf: cfg.ConfigOpts) -> dict[str, bytes]:
    """Return {member: content} of the parts."""
    found: dict[str, bytes] = {}
    for name, place in parts(conf).items():
        for path in (place, *sorted(place.rglob('*'))) if place.is_dir() else (place,):
            if not path.is_file() or path.is_symlink() or path.name.endswith(durable_files.PART):
                continue
            below = '' if path == place else f'/{path.relative_to(place)}'
            if not backup_file.is_name(f'files/{name}{below}'):
                LOG.warning('The backup does not include %s: no file of the deployment has such a name.', path)
                continue
            with contextlib.suppress(FileNotFoundError):         # the file was replaced or removed meanwhile
                found[f'files/{name}{below}'] = _read_small(path)
    if sum(map(len, found.values())) > MAX_FILES:
        raise exception.InvalidInput(f'Keys and certificates are larger than {MAX_FILES >> 20} MiB together.')
    return found


def _read_small(path: pathlib.Path) -> bytes:
    with open(path, 'rb') as file:
        data = file.read(MAX_FILE + 1)
    if len(data) > MAX_FILE:
        raise exception.InvalidInput(f'{path} is larger than {MAX_FILE >> 20} MiB, the maximum size of a key, a '
                                     'certificate or a configuration file in a backup.')
    return data


def _configuration(conf: cfg.ConfigOpts) -> list[pathlib.Path]:
    """Return the configuration files of this deployment."""
    named: list[Any] = [*conf.config_file, *(path for directory in conf.config_dir for path in
                                             sorted(pathlib.Path(directory).glob('*.conf')))]
    more = [conf.find_file(directory) for directory in conf.oslo_policy.policy_dirs]
    named += [conf.find_file(conf[service.group].policy_file) for service in policies.SERVICES]
    named += [path for directory in filter(None, more) for path in sorted(pathlib.Path(directory).iterdir())
              if not path.name.startswith('.')]          # oslo.policy ignores hidden files
    named += [conf.http.cert_file, conf.http.key_file, conf.messages.join_token_file]
    found = [pathlib.Path(path).absolute() for path in named if path]
    return [path for path in dict.fromkeys(found) if path.is_file()]


def _add_image(conf: cfg.ConfigOpts, writer: backup_file.Writer, data_id: str) -> bool:
    """Add the data of an image to a backup; return False if the image was deleted."""
    directory = _images(conf)
    assert directory is not None
    try:
        file = open(directory / data_id, 'rb')
    except FileNotFoundError:
        return False
    with file:
        writer.add_stream(f'images/{data_id}', os.fstat(file.fileno()).st_size, iter(lambda: file.read(PIECE), b''))
    return True


# ---- content of a file

@dataclasses.dataclass
class Content:
    """Content of a backup that was read and checked completely."""

    manifest: dict[str, Any]
    row_count: int = 0
    files: list[str] = dataclasses.field(default_factory=list)
    images: dict[str, int] = dataclasses.field(default_factory=dict)           # {id of the image data: size in bytes}
    cell_urls: dict[str, str] = dataclasses.field(default_factory=dict)        # {uuid of a cell: URL of its database}


def examine(conf: cfg.ConfigOpts, file: BinaryIO, passphrase: Callable[[], str]) -> Content:
    """Read and check the whole backup; write nothing.

    :raises Damaged: this code cannot restore it
    """
    reader, found, known_parts = backup_file.Reader(file, passphrase), Content({}), parts(conf)
    with_rows: set[str] = set()
    for name, size, pieces in reader.members():
        kind, *words = name.split('/')
        if kind == 'databases' and len(words) == 3:
            table, columns, batch = _batch(name, size, pieces)
            with_rows.add(words[0])
            found.row_count += len(batch)
            if (words[0], table) == (API, 'cells'):
                found.cell_urls.update(_cell_urls(columns, batch))
        elif kind == 'files' and words and words[0] in known_parts and size <= MAX_FILE \
                and (len(words) == 1) == (words[0] in SINGLE):
            found.files.append(name)
        elif kind == 'images' and len(words) == 1 and _is_uuid(words[0]):
            found.images[words[0]] = size
        elif not (kind == 'configuration' and len(words) == 2 and size <= MAX_FILE):
            raise backup_file.Damaged(reason=f'it has an unknown member: {name!r}.')
    folders = {str(above) for name in found.files for above in pathlib.PurePath(name).parents}
    if folders & set(found.files):
        raise backup_file.Damaged(reason='it has a file and a directory with the same path.')
    found.manifest = reader.manifest
    known = _databases(found.manifest)
    if with_rows - known.keys():
        raise backup_file.Damaged(reason='it has rows of a database that its manifest does not name.')
    for name, database in known.items():
        if not rows.knows(_branch(name), database.get('revision')):
            raise backup_file.Damaged(reason=f'this release does not know revision {database.get("revision")!r} of '
                                             f'database {name}. Use the release that made the backup, or a newer one.')
    return found


def _batch(name: str, size: int, pieces: Iterator[bytes]) -> tuple[str, list[str], rows.Batch]:
    """Return (table, columns, rows) of a member.

    :raises Damaged: it is malformed or too large
    """
    _kind, database, table, _number = name.split('/')
    inflate, parts_, total = zlib.decompressobj(), [], 0
    try:
        for piece in pieces:
            parts_.append(inflate.decompress(piece, MAX_BATCH - total + 1))
            total += len(parts_[-1])
            if total > MAX_BATCH or inflate.unconsumed_tail:
                raise ValueError
        found: Any = json.loads(b''.join(parts_)) if inflate.eof else None
        columns, batch = found['columns'], found['rows']
        rows.check(_branch(database), table, columns, batch)
    except (ValueError, KeyError, TypeError, zlib.error, RecursionError):
        raise backup_file.Damaged(reason=f'{name} has no rows.') from None
    except exception.InvalidInput as error:
        raise backup_file.Damaged(reason=error.message) from None
    return table, columns, batch


def _cell_urls(columns: list[str], batch: rows.Batch) -> dict[str, str]:
    named = (dict(zip(columns, row)) for row in batch)
    return {str(row.get('uuid')): str(row.get('database_url') or '') for row in named}


def _databases(manifest: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return {name of a database: its entry in the manifest}."""
    try:
        found = {database['name']: database for database in manifest['databases']}
        default = [name for name, database in found.items() if database['default'] is True]
        if API not in found or len(default) != 1 or not all(_is_uuid(name) for name in found if name != API):
            raise ValueError
    except (KeyError, TypeError, ValueError):
        raise backup_file.Damaged(reason='its manifest names no API database and default cell.') from None
    return found


def _is_uuid(text: str) -> bool:
    try:
        return str(uuidlib.UUID(text)) == text
    except (ValueError, AttributeError, TypeError):
        return False


# ---- restore

@dataclasses.dataclass(frozen=True)
class RestoreResult:
    """Result of ``restore``, for the operator."""

    content: Content
    configuration: pathlib.Path | None   # directory with the configuration files of the backup
    replaced: list[pathlib.Path]         # paths to which the former state was renamed
    images_without_data: list[str]       # ids


def restore(conf: cfg.ConfigOpts, path: str, passphrase: Callable[[], str], replace: bool = False) -> RestoreResult:
    """Restore the control plane from a backup. Everything is checked before the first write.

    :param replace: replace an existing state
    :raises Damaged: the file cannot be used
    :raises Conflict: there is a state, or services use it
    """
    try:
        file = open(path, 'rb')
    except OSError as error:
        raise exception.InvalidInput(f'{path} cannot be read: {error.strerror}.') from None
    with file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise exception.InvalidInput(f'{path} is not a file.')
        content = examine(conf, file, passphrase)
        with contextlib.closing(state_directory.take(state_path(conf))), engine.joining(None):
            return _Restore(conf, content, replace).run(lambda: backup_file.Reader(file, passphrase))


def check_stopped(conf: cfg.ConfigOpts, db: engine.Database, hosts: Collection[str] = ()) -> None:
    """Check that no service uses a database.

    :param hosts: hosts with services that the caller has stopped
    :raises Conflict: services use a database
    """
    with db.reader() as conn:
        found = rows.services(conn)
    now = utils.utcnow()
    live = sorted({f'{row["binary"]} on {row["host"]}' for row in found
                   if row['host'] not in hosts and services.is_up(row, conf.service_down_time, now)})
    if live:
        raise exception.Conflict(f'Services use this database: {", ".join(live)}. Stop them, and try again after '
                                 f'{conf.service_down_time} s.')


class _Restore:
    """One restore.

    New files are written next to their targets, and renamed when the databases are complete. From the first change on,
    a mark in the state directory keeps nova-all from starting with a half-restored state.
    """

    def __init__(self, conf: cfg.ConfigOpts, content: Content, replace: bool) -> None:
        self._conf, self._content, self._replace = conf, content, replace
        self._state, self._images = state_path(conf), _images(conf)
        self._owner = os.stat(self._state)
        self._branches = {name: _branch(name) for name in _databases(content.manifest)}
        self._targets: dict[str, Any] = {}           # {name of a database: its URL}
        self._staged: dict[pathlib.Path, pathlib.Path] = {}          # {staged: target}
        self._without_data: list[str] = []

    def run(self, read: Callable[[], backup_file.Reader]) -> RestoreResult:
        self._find_places()
        self._check()
        try:
            databases = {name: self._open(name) for name in self._branches}
            if self._on_servers():
                self._mark(state_directory.INCOMPLETE)
            self._write(databases, read())
        except BaseException:
            for staged in self._staged:
                _remove(staged)
            raise
        self._mark(state_directory.INCOMPLETE)
        replaced = self._rename()
        if not self._on_servers():           # SQLite: the state of nova-all, which removes this file after its start
            self._mark(state_directory.RESTORED)
        os.unlink(self._state / state_directory.INCOMPLETE)
        directories.sync(self._state)
        has_configuration = bool(self._content.manifest.get('configuration'))
        return RestoreResult(self._content, self._state / CONFIGURATION if has_configuration else None, replaced,
                        self._without_data)

    # ---- paths

    def _find_places(self) -> None:
        """Find the URLs of the databases to restore."""
        api_db, cell_db = assembly.open_databases(self._conf)
        api_db.dispose()
        cell_db.dispose()
        configured = cell_db.url.render_as_string(hide_password=False)
        for name, database in _databases(self._content.manifest).items():
            if name == API or database['default']:
                self._targets[name] = (api_db if name == API else cell_db).url
                continue
            filled = cell_urls.fill(self._content.cell_urls.get(name, ''), configured)
            if not filled:
                raise backup_file.Damaged(reason=f'it does not say where the database of cell {name} is.')
            with _opened(engine.Database(filled, pool_size=2, max_overflow=2)) as db:
                self._targets[name] = db.url

    def _file(self, name: str) -> pathlib.Path | None:
        """Return the file of an SQLite database, or None for a database server."""
        url = self._targets[name]
        return pathlib.Path(url.database).absolute() if url.get_backend_name() == 'sqlite' else None

    def _on_servers(self) -> list[str]:
        return [name for name in self._branches if self._file(name) is None]

    # ---- before the first write

    def _check(self) -> None:
        """Check that the restore is possible.

        :raises Conflict: there is data that may not be replaced, or services use it
        :raises InsufficientStorage: there is not enough room for the images
        """
        there = [str(path) for path in self._places() if path.exists()]
        for name in self._on_servers():
            with _opened(engine.Database(self._targets[name], pool_size=2, max_overflow=2)) as db:
                if rows.is_empty(db, self._branches[name]):
                    continue
                there.append(f'the database {self._targets[name].render_as_string(hide_password=True)}')
                check_stopped(self._conf, db)
        if (self._state / state_directory.INCOMPLETE).exists():
            there.append(f'the files of an incomplete restore in {self._state}')
        if there and not self._replace:
            raise exception.Conflict(f'The deployment already has data: {", ".join(there)}. {REPLACE} replaces it '
                                     'with the data of the backup; later changes are lost. The replaced files are '
                                     'renamed and kept. The replaced content of database servers is not kept.')
        if self._images is not None:
            above = next(path for path in (self._images, *self._images.parents) if path.exists())
            missing = (size for name, size in self._content.images.items() if not (self._images / name).exists())
            disk_space.Reserve(ROOM).check(str(above), sum(missing))

    def _places(self) -> list[pathlib.Path]:
        """Return the paths that a restore writes. Some of the paths may exist already."""
        named = {member.split('/')[1] for member in self._content.files}
        files = [path for path in map(self._file, self._branches) if path is not None]
        return [*files, *dict.fromkeys(_outermost(self._conf, name) for name in parts(self._conf) if name in named)]

    # ---- writing

    def _open(self, name: str) -> engine.Database:
        """Open the database into which the rows are written."""
        url = self._targets[name]
        place = self._file(name)
        if place is not None:
            url = f'sqlite:///{self._stage(place)}'
        return engine.Database(url, pool_size=2, max_overflow=2, name=f'restored {name}')

    def _stage(self, place: pathlib.Path) -> pathlib.Path:
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        staged = place.with_name(place.name + STAGED)
        if staged not in self._staged:
            _remove(staged)
            self._staged[staged] = place
        return staged

    def _write(self, databases: dict[str, engine.Database], reader: backup_file.Reader) -> None:
        manifest = _databases(self._content.manifest)
        for name, db in databases.items():
            rows.prepare(db, self._branches[name], manifest[name]['revision'])
        for name, size, pieces in reader.members():
            kind, *words = name.split('/')
            if kind == 'databases':
                table, columns, batch = _batch(name, size, pieces)
                rows.insert(databases[words[0]], self._branches[words[0]], table, columns, batch)
            elif kind == 'images':
                if self._images is not None and not (self._images / words[0]).exists():
                    self._write_file(self._stage(self._images / words[0]), pieces)
            elif kind == 'configuration':
                self._write_file(self._stage(self._state / CONFIGURATION).joinpath(*words), pieces)
            else:
                root, place = _outermost(self._conf, words[0]), parts(self._conf)[words[0]]
                target = self._stage(root).joinpath(place.relative_to(root), *words[1:])
                if not target.exists():      # else another part had the same file
                    self._write_file(target, pieces)
        for name, db in databases.items():
            rows.finish(db, self._branches[name], manifest[name]['revision'])
        if self._images is not None:
            written = {place.name for place in self._staged.values() if place.parent == self._images}
            present = written | {path.name for path in self._images.glob('*')}
            self._without_data = databases[API].run(db_images.await_data, present)
        for db in databases.values():
            db.dispose()                     # closing the last connection removes SQLite's -wal file
        for staged in self._staged:
            self._secure(staged)

    def _write_file(self, path: pathlib.Path, pieces: Iterator[bytes]) -> None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with open(os.open(path, flags, 0o600), 'wb') as file:
            for piece in pieces:
                if not piece.strip(b'\0'):
                    file.seek(len(piece), os.SEEK_CUR)           # a hole
                else:
                    file.write(piece)
            file.truncate()

    def _secure(self, path: pathlib.Path) -> None:
        """Flush a staged file or directory to disk, and set the owner of the state directory as its owner."""
        for each in (path, *path.rglob('*')) if path.is_dir() else (path,):
            if os.geteuid() == 0:
                os.chown(each, self._owner.st_uid, self._owner.st_gid, follow_symlinks=False)
            descriptor = os.open(each, os.O_RDONLY | os.O_NOFOLLOW)
            os.fsync(descriptor)
            os.close(descriptor)

    # ---- completion

    def _rename(self) -> list[pathlib.Path]:
        """Rename the staged files to their targets; return the new paths of the former state."""
        stamp = utils.utcnow().strftime('%Y%m%dT%H%M%S')
        replaced = []
        for staged, place in self._staged.items():
            for old in (place, *(place.with_name(place.name + end) for end in ('-wal', '-shm', '-journal'))):
                if old.exists() or old.is_symlink():
                    replaced.append(old.with_name(f'{old.name}{BEFORE}-{stamp}'))
                    os.rename(old, replaced[-1])
            os.rename(staged, place)
        for directory in {place.parent for place in self._staged.values()}:
            if os.geteuid() == 0 and directory != self._state and self._state in directory.parents:
                os.chown(directory, self._owner.st_uid, self._owner.st_gid)
            directories.sync(directory)
        return replaced

    def _mark(self, name: str) -> None:
        path = self._state / name
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)                  # do not follow a link, because root writes in a directory of another user
        with open(path, 'x') as file:
            file.write(f'backup of {self._content.manifest.get("created_at")}, restored {utils.utcnow()}\n')
        path.chmod(0o600)
        self._secure(path)
        directories.sync(self._state)


@contextlib.contextmanager
def _opened(db: engine.Database) -> Iterator[engine.Database]:
    try:
        yield db
    finally:
        db.dispose()


def _remove(path: pathlib.Path) -> None:
    """Remove a file with the auxiliary files of SQLite, or a directory, if it exists."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
        return
    for end in ('', '-wal', '-shm', '-journal'):
        path.with_name(path.name + end).unlink(missing_ok=True)
