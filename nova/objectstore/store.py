"""Buckets and objects of projects. All lookups are limited to the caller's project.

A content file is written before its row, and deleted after its row. A crash may leave unreferenced files, which
the next start moves aside.
"""
import collections
from collections.abc import Callable, Iterable, Iterator, Sequence
import contextlib
import dataclasses
import datetime
import hashlib
import pathlib
import re
import threading
from typing import BinaryIO
import uuid

from nova import utils
from nova.db import engine
from nova.db.engine import ResultRow
from nova.db.objects import objects as db
from nova.db.objects import tables
from nova.objectstore import contents
from nova.objectstore.digests import Digest
from nova.objectstore import errors
from nova.objectstore import framing
from nova.runtime import disk_space

MAX_OBJECT, MAX_PUT = 5 << 40, 5 << 30            # maximum bytes of a multipart object, and of a single upload
MAX_KEY, MAX_PARTS, MIN_PART = 1024, 10000, 5 << 20
# bytes of a project's running uploads that do not count towards the quota; see _room
AHEAD = 64 << 20
MAX_UPLOADS = 1000                                # concurrent multipart uploads of a project
UPLOADS_DAYS = 7                                  # days without a new part after which an upload is deleted
_Written = tuple[ResultRow, list[str]]     # a new row, and the files that are no longer referenced
_BUCKET = re.compile(r'[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]')
_ETAG = re.compile('[0-9a-f]{32}')                # of a part
_CONTROL = re.compile('[\x00-\x1f\x7f\ufffe\uffff\ud800-\udfff]')


@dataclasses.dataclass(frozen=True)
class Limits:
    """Limits of one project: bytes, objects and buckets."""

    size: int
    objects: int
    buckets: int


@dataclasses.dataclass(frozen=True)
class Listing:
    """Page of a bucket: rows of objects, common prefixes, and the last key or prefix if there is a next page, or None.
    """

    rows: Sequence[ResultRow]
    prefixes: Sequence[str]
    next: str | None


class Store:
    """The object store.

    :param directory: directory of the index and the contents
    """

    def __init__(self, directory: pathlib.Path, limits: Limits, reserve: disk_space.Reserve) -> None:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._limits = limits
        self._db = engine.Database(f'sqlite:///{directory}/index.sqlite', name='objects')
        tables.METADATA.create_all(self._db.engine)
        self._contents = contents.Contents(directory / 'contents', reserve)
        self._lock = threading.Lock()
        self._coming: collections.Counter[str] = collections.Counter()        # bytes of running uploads by project
        self._completing: set[str] = set()                                    # uploads being completed
        self._db.run(db.recount)
        self._expire()
        with self._db.reader() as conn:
            known = db.files(conn)
        self._contents.clean(known)

    def close(self) -> None:
        self._db.dispose()
        self._contents.close()

    # ---- buckets

    def buckets(self, project: str) -> Sequence[ResultRow]:
        with self._db.reader() as conn:
            return db.buckets(conn, project)

    def make_bucket(self, project: str, name: str) -> None:
        """Create a bucket.

        :raises S3Error: the name is invalid or in use, or the project has too many buckets
        """
        if not _BUCKET.fullmatch(name) or '..' in name:
            raise errors.S3Error('InvalidBucketName', 'A bucket name must have 3 to 63 lowercase letters, digits, dots '
                                                      'and hyphens.')

        def write(conn: engine.Connection) -> None:
            have = db.buckets(conn, project)
            if any(row.name == name for row in have):
                raise errors.S3Error('BucketAlreadyOwnedByYou', 'Your project already has this bucket.', 409)
            if len(have) >= self._limits.buckets:
                raise errors.S3Error('TooManyBuckets', f'A project can have at most {self._limits.buckets} buckets.')
            db.insert_bucket(conn, project, name)
        self._db.run(write)

    def bucket(self, project: str, name: str) -> int:
        """Return the row ID of a bucket.

        :raises S3Error: the project does not have it
        """
        with self._db.reader() as conn:
            return self._bucket(conn, project, name)

    def remove_bucket(self, project: str, name: str) -> None:
        """Delete a bucket.

        :raises S3Error: it does not exist, or has objects or uploads
        """
        def write(conn: engine.Connection) -> None:
            ident = self._bucket(conn, project, name)
            if not db.is_empty(conn, ident):
                raise errors.S3Error('BucketNotEmpty', 'The bucket has objects or incomplete uploads.',
                                     409)
            db.delete_bucket(conn, ident)
        self._db.run(write)

    @staticmethod
    def _bucket(conn: engine.Connection, project: str, name: str) -> int:
        found = db.bucket_id(conn, project, name)
        if found is None:
            raise errors.no_bucket(name[:64])
        return found

    # ---- objects

    def find(self, project: str, bucket: str, key: str) -> ResultRow:
        """Return the row of an object.

        :raises S3Error: it does not exist
        """
        with self._db.reader() as conn:
            found = db.get(conn, self._bucket(conn, project, bucket), key)
        if found is None:
            raise errors.no_key()
        return found

    def read(self, project: str, bucket: str, key: str) -> tuple[ResultRow, BinaryIO]:
        """Return (row, open file) of an object."""
        while True:                                       # retry if the object is replaced between find() and open()
            row = self.find(project, bucket, key)
            try:
                return row, self._contents.open(row.file)
            except FileNotFoundError:
                if self.find(project, bucket, key).file == row.file:
                    raise

    def put(self, project: str, bucket: str, key: str, pieces: Iterable[framing.Piece], size: int,
            headers: dict[str, str], etag: Callable[[], str]) -> ResultRow:
        """Write an object atomically and return its row.

        :param etag: function that returns the ETag of the object, called after the pieces were read
        """
        _check_key(key)
        with self._room(project, lambda conn: db.get(conn, self._bucket(conn, project, bucket), key), size):
            name = self._contents.write(pieces, size)
            return self._named(name, lambda conn: self._replace(
                conn, project, self._bucket(conn, project, bucket), key, name, size, etag(), headers))

    def remove(self, project: str, bucket: str, keys: Sequence[str]) -> None:
        """Delete objects; missing objects are ignored."""
        def write(conn: engine.Connection) -> list[str]:
            ident, gone = self._bucket(conn, project, bucket), []
            for key in keys:
                row = db.get(conn, ident, key)
                if row is not None:
                    db.delete(conn, ident, key)
                    self._use(conn, project, -row.size, -1)
                    gone.append(row.file)
            return gone
        self._contents.remove(*self._db.run(write))

    def page(self, project: str, bucket: str, prefix: str, delimiter: str, after: str, most: int,
             skip: bool = True) -> Listing:
        """Return a page of keys with a prefix, sorted by bytes; keys with a common prefix up to a delimiter are
        grouped.

        The first query after a group reads one row. Each further query reads twice as many rows as the query before it,
        until a row belongs to a group. If each query read a full page, a thousand groups could need a million rows.

        :param after: the key or common prefix after which the page begins, or ''
        :param skip: whether the page begins after the keys of the group if ``after`` is its common prefix
        """
        rows: list[ResultRow] = []
        prefixes: list[str] = []
        with self._db.reader() as conn:
            ident = self._bucket(conn, project, bucket)
            last = after
            at = after + db.LAST if skip and after and after == _group(after, prefix, delimiter) else after
            some = 1 if delimiter else most + 1
            while len(rows) + len(prefixes) <= most:
                page = db.page(conn, ident, prefix, at, some)
                for row in page:
                    common = _group(row.key, prefix, delimiter)
                    if len(rows) + len(prefixes) == most:
                        return Listing(rows, prefixes, last)
                    if common:
                        at, last = common + db.LAST, common
                        prefixes.append(common)
                        some = 1
                        break
                    rows.append(row)
                    at = last = row.key
                else:
                    if len(page) < some:
                        break
                    some = min(2 * some, most + 1)
        return Listing(rows, prefixes, None)

    def _replace(self, conn: engine.Connection, project: str, bucket_id: int, key: str, file: str, size: int, etag: str,
                 headers: dict[str, str]) -> _Written:
        """Replace the row of an object; return (row, unreferenced files)."""
        before = db.get(conn, bucket_id, key)
        self._use(conn, project, size - (before.size if before else 0), 0 if before else 1)
        row = db.replace(conn, bucket_id, key, file=file, size=size, etag=etag, headers=headers)
        return row, [before.file] if before else []

    def _named(self, name: str, write: Callable[[engine.Connection], _Written]) -> ResultRow:
        """Run a write that adds the reference to a content file; delete the file if the write fails."""
        try:
            row, gone = self._db.run(write)
        except BaseException:
            self._contents.remove(name)
            raise
        self._contents.remove(*gone)
        return row

    @contextlib.contextmanager
    def _room(self, project: str, find: Callable[[engine.Connection], ResultRow | None], size: int) -> Iterator[None]:
        """Reserve quota for an upload before its content is read.

        :param find: function that returns the row that the upload replaces, or None
        :raises S3Error: the quota is exceeded; also the errors of ``find``

        Bytes of running uploads count towards the quota, except the first AHEAD bytes of a project. The exception
        allows concurrent uploads to one key: only one of these uploads is finally stored.
        """
        with self._lock:
            with self._db.reader() as conn:
                before = find(conn)
                size_now, objects = db.used(conn, project)
            self._refuse((size_now + max(0, self._coming[project] - AHEAD), objects),
                         size - (before.size if before else 0), 0 if before else 1)
            self._coming[project] += size
        try:
            yield
        finally:
            with self._lock:
                self._coming[project] -= size
                self._coming += collections.Counter()            # drop projects without uploads

    @contextlib.contextmanager
    def _complete_once(self, upload: str) -> Iterator[None]:
        """Prevent concurrent completions, because each writes the whole object. Clients retry after SlowDown."""
        with self._lock:
            if upload in self._completing:
                raise errors.S3Error('SlowDown', 'The upload is already being completed.', 503)
            self._completing.add(upload)
        try:
            yield
        finally:
            with self._lock:
                self._completing.discard(upload)

    def _refuse(self, used: tuple[int, int], size: int, objects: int) -> None:
        if size > 0 and used[0] + size > self._limits.size:
            raise errors.S3Error('QuotaExceeded', f'The upload exceeds the quota of {self._limits.size} bytes.', 403)
        if objects > 0 and used[1] + objects > self._limits.objects:
            raise errors.S3Error('QuotaExceeded', f'The quota of {self._limits.objects} objects is exceeded.', 403)

    def _use(self, conn: engine.Connection, project: str, size: int, objects: int) -> None:
        """Add to the usage of a project. A part of an upload counts as an object, because each is a file."""
        used = db.used(conn, project)
        self._refuse(used, size, objects)
        db.set_used(conn, project, used[0] + size, used[1] + objects)

    # ---- multipart uploads

    def begin_upload(self, project: str, bucket: str, key: str, headers: dict[str, str]) -> str:
        """Start an upload and return its ID."""
        _check_key(key)
        self._expire()
        ident = uuid.uuid4().hex

        def write(conn: engine.Connection) -> None:
            bucket_id = self._bucket(conn, project, bucket)
            if db.count_uploads(conn, project) >= MAX_UPLOADS:
                raise errors.S3Error('SlowDown', f'The project has {MAX_UPLOADS} incomplete uploads.', 503)
            db.insert_upload(conn, ident, bucket_id, key, headers)
        self._db.run(write)
        return ident

    def put_part(self, project: str, bucket: str, key: str, upload: str, number: int, pieces: Iterable[framing.Piece],
                 size: int, etag: Callable[[], str]) -> ResultRow:
        """Write a part and return its row."""
        def find(conn: engine.Connection) -> ResultRow | None:
            self._begun(conn, project, bucket, key, upload)
            return db.part(conn, upload, number)

        def write(conn: engine.Connection) -> _Written:
            before = find(conn)
            self._use(conn, project, size - (before.size if before else 0), 0 if before else 1)
            row = db.replace_part(conn, upload, number, file=name, size=size, etag=etag())
            return row, [before.file] if before else []
        with self._room(project, find, size):
            name = self._contents.write(pieces, size)
            return self._named(name, write)

    def upload(self, project: str, bucket: str, key: str, upload: str) -> tuple[ResultRow, Sequence[ResultRow]]:
        """Return (row, rows of its parts) of an upload."""
        with self._db.reader() as conn:
            return self._upload(conn, project, bucket, key, upload)

    def uploads(self, project: str, bucket: str) -> Sequence[ResultRow]:
        with self._db.reader() as conn:
            return db.uploads(conn, self._bucket(conn, project, bucket))

    def complete(self, project: str, bucket: str, key: str, upload: str, wanted: Sequence[tuple[int, str]],
                 watched: Callable[[int, Iterable[bytes]], Iterable[bytes]], bytes_wanted: int | None) -> ResultRow:
        """Create an object from parts and return its row.

        A client may miss the response, because the copy of the parts takes long. A repeated request therefore returns
        the object that the first one created.

        :param wanted: (number, ETag) of each part, ordered by number
        :param watched: function(number, pieces) that yields the same pieces and verifies them during the copy
        :param bytes_wanted: required size of the object, or None for any size
        """
        with self._complete_once(upload):
            try:
                row, have = self.upload(project, bucket, key, upload)
            except errors.S3Error as error:
                if error.code == 'NoSuchUpload' and (made := self._completed(project, bucket, key, wanted)) is not None:
                    return made
                raise
            return self._complete(project, bucket, row, have, wanted, watched, bytes_wanted)

    def _completed(self, project: str, bucket: str, key: str, wanted: Sequence[tuple[int, str]]) -> ResultRow | None:
        """Return the row of an object that consists of these parts, or None."""
        with self._db.reader() as conn:
            row = db.get(conn, self._bucket(conn, project, bucket), key)
        etags = [etag for _number, etag in wanted]
        same = row is not None and all(map(_ETAG.fullmatch, etags)) and row.etag == _joined_etag(etags)
        return row if same else None

    def _complete(self, project: str, bucket: str, row: ResultRow, have: Sequence[ResultRow],
                  wanted: Sequence[tuple[int, str]], watched: Callable[[int, Iterable[bytes]], Iterable[bytes]],
                  bytes_wanted: int | None) -> ResultRow:
        key, upload, chosen = row.key, row.id, _chosen_parts(have, wanted)
        size = sum(part.size for part in chosen)
        if bytes_wanted not in (None, size):
            raise errors.S3Error('InvalidRequest', f'The parts have a total of {size} bytes, not {bytes_wanted}.')

        def write(conn: engine.Connection) -> _Written:
            _row, still = self._upload(conn, project, bucket, key, upload)
            _check_unchanged(chosen, still)
            gone = self._end_upload(conn, project, upload, still)
            made, before = self._replace(conn, project, row.bucket_id, key, name, size,
                                         _joined_etag([part.etag for part in chosen]), row.headers)
            return made, [*gone, *before]
        try:
            name = self._contents.write((
                piece for part in chosen for piece in watched(part.number, self._contents.pieces(part.file))), size)
        except FileNotFoundError:
            _check_unchanged(chosen, self.upload(project, bucket, key, upload)[1])
            raise
        return self._named(name, write)

    def abort(self, project: str, bucket: str, key: str, upload: str) -> None:
        def write(conn: engine.Connection) -> list[str]:
            _row, have = self._upload(conn, project, bucket, key, upload)
            return self._end_upload(conn, project, upload, have)
        self._contents.remove(*self._db.run(write))

    def _end_upload(self, conn: engine.Connection, project: str, upload: str, have: Sequence[ResultRow]) -> list[str]:
        db.delete_upload(conn, upload)
        self._use(conn, project, -sum(part.size for part in have), -len(have))
        return [part.file for part in have]

    def _begun(self, conn: engine.Connection, project: str, bucket: str, key: str, upload: str) -> ResultRow:
        """Return the row of an upload.

        :raises S3Error: it does not exist
        """
        row = db.upload(conn, self._bucket(conn, project, bucket), key, upload)
        if row is None:
            raise errors.no_upload()
        return row

    def _upload(self, conn: engine.Connection, project: str, bucket: str, key: str,
                upload: str) -> tuple[ResultRow, Sequence[ResultRow]]:
        return self._begun(conn, project, bucket, key, upload), db.parts(conn, upload)

    def _expire(self) -> None:
        """Delete expired uploads."""
        ended = utils.utcnow() - datetime.timedelta(days=UPLOADS_DAYS)

        def write(conn: engine.Connection) -> list[str]:
            return [name for row in db.uploads_before(conn, ended)
                    for name in self._end_upload(conn, row.project_id, row.id, db.parts(conn, row.id))]
        self._contents.remove(*self._db.run(write))


def _group(key: str, prefix: str, delimiter: str) -> str:
    """Return the common prefix of the group to which a key belongs, or ''."""
    cut = key.find(delimiter, len(prefix)) if delimiter and key.startswith(prefix) else -1
    return key[:cut + len(delimiter)] if cut >= 0 else ''


def _check_key(key: str) -> None:
    if not 0 < len(key.encode(errors='replace')) <= MAX_KEY or _CONTROL.search(key):
        raise errors.S3Error('KeyTooLongError' if len(key) > MAX_KEY else 'InvalidArgument',
                             f'A key must have 1 to {MAX_KEY} bytes and no control characters.')


def _chosen_parts(have: Sequence[ResultRow], wanted: Sequence[tuple[int, str]]) -> list[ResultRow]:
    """Return the rows of the requested parts.

    :param have: rows of all parts of the upload
    :param wanted: (number, ETag) of each part
    :raises S3Error: missing or unordered parts, or invalid sizes
    """
    known, numbers = {part.number: part for part in have}, [number for number, _etag in wanted]
    if numbers != sorted(set(numbers)):
        raise errors.S3Error('InvalidPartOrder', 'The parts are not ordered by number.')
    if not wanted or any(number not in known or known[number].etag != etag for number, etag in wanted):
        raise errors.S3Error('InvalidPart', 'A part was not uploaded, or its ETag differs.')
    chosen = [known[number] for number in numbers]
    if any(part.size < MIN_PART for part in chosen[:-1]):
        raise errors.S3Error('EntityTooSmall', f'A part other than the last has fewer than {MIN_PART} bytes.')
    if sum(part.size for part in chosen) > MAX_OBJECT:
        raise errors.S3Error('EntityTooLarge', f'An object can have at most {MAX_OBJECT} bytes.')
    return chosen


def _joined_etag(etags: Sequence[str]) -> str:
    """Return the ETag of an object from the ETags of its parts."""
    joined = hashlib.md5(b''.join(map(bytes.fromhex, etags)), usedforsecurity=False)
    return f'{joined.hexdigest()}-{len(etags)}'


def _check_unchanged(chosen: Sequence[ResultRow], still: Sequence[ResultRow]) -> None:
    """Check that the chosen parts of an upload are still there.

    :param still: rows of the upload's parts now
    """
    if {part.file for part in chosen} - {part.file for part in still}:
        raise errors.S3Error('InvalidPart', 'A part was replaced during the request.')


def copied(pieces: Iterable[bytes], digest: Digest) -> Iterator[bytes]:
    """Yield pieces and add each one to a digest."""
    for piece in pieces:
        digest.update(piece)
        yield piece
