"""Imports of image data from a URL (web-download), or from data that the client has staged (glance-direct).

A few threads download, one image each; projects share them fairly. Tasks in the database record the results. A restart
does not resume interrupted downloads: their images return to the status queued (Store.recover), and their tasks get the
status failure. The client imports the image again.
"""
from __future__ import annotations

from collections.abc import Iterable, Mapping
import functools
import logging
import typing
import uuid

from nova import exception
from nova import utils
from nova.db import engine
from nova.db.engine import Connection
from nova.db.images import images as db_images
from nova.db.images import tasks as db_tasks
from nova.image import fetch
from nova.image import resources
from nova.runtime import concurrency
from nova.runtime import fairness
from nova.runtime import queues

if typing.TYPE_CHECKING:
    from nova.context import RequestContext
    from nova.db.engine import Database
    from nova.db.tables.rows import ImageTasksRow
    from nova.image.embedded.files import Files
    from nova.image.embedded.stored_image import StoredImage
    from nova.json_types import JsonObject

LOG = logging.getLogger(__name__)

DIRECT, DOWNLOAD = 'glance-direct', 'web-download'
METHODS = (DIRECT, DOWNLOAD)
MAX_RUNNING = 4                  # maximum concurrent downloads; a download mostly waits for the network
MAX_WAITING = 64                 # maximum downloads that wait, half of them of one project; further ones are refused
MAX_TASKS = 8                    # maximum stored tasks of an image; older tasks are deleted
BUSY_S = 30                      # seconds after which a refused client may retry
INTERRUPTED = 'The image service stopped during the import. Import the image again.'
NO_THREAD = 'The image service has no free thread. Import the image again.'
REFUSAL = '{host} has an address that is not public or belongs to this cloud.'      # hides internal addresses


class Settings(typing.NamedTuple):
    """Configuration of imports.

    methods    offered methods
    networks   private networks from which downloads are allowed
    own        hosts of the control plane; downloads from them are refused unless ``networks`` contains them
    """

    methods: tuple[str, ...] = METHODS
    networks: tuple[fetch.Network, ...] = ()
    own: tuple[str, ...] = ()


class Source(typing.NamedTuple):
    """Checked origin of the data of an image.

    url    of a web-download, else None
    """

    method: str
    url: str | None


class Download(typing.NamedTuple):
    """A download that waits for a thread."""

    image: StoredImage
    data_id: str
    url: str
    task_id: str
    project_id: str


class Store(typing.Protocol):
    """Interface of the image store that imports need; nova.image.embedded.service implements it."""

    db: Database
    files: Files

    def changeable(self, conn: Connection, ctx: RequestContext, image_id: str, rule: str) -> StoredImage: ...

    def claim(self, conn: Connection, ctx: RequestContext, image_id: str, data_id: str, length: int,
              status: str) -> StoredImage: ...

    def receive(self, image: StoredImage, data_id: str, chunks: Iterable[bytes]) -> None: ...

    def release(self, image_id: str, data_id: str) -> None: ...


class Imports:
    """Starts imports into one store, and runs their downloads.

    :param store: the store
    :param settings: its configuration
    """

    def __init__(self, store: Store, settings: Settings) -> None:
        self.methods, self._settings, self._store = settings.methods, settings, store
        self._queue: fairness.FairQueue[Download] = fairness.FairQueue(MAX_RUNNING)
        queues.watch(queues.IMAGE_IMPORTS, self, lambda each: queues.Size(each._queue.waiting, each._queue.running))

    @functools.cached_property
    def _fetcher(self) -> fetch.Fetcher:
        return fetch.Fetcher(self._store.files.max_size, self._settings.networks, schemes=('https', 'http'),
                             own=self._settings.own, refusal=REFUSAL)

    def recover(self) -> None:
        """End the tasks of interrupted imports. Call it once at start, after the reset of the images."""
        self._store.db.run(db_tasks.end_interrupted, INTERRUPTED)

    def tasks(self, image_id: str) -> list[ImageTasksRow]:
        """Return the tasks of an image, oldest first."""
        with self._store.db.reader() as conn:
            return db_tasks.of_image(conn, image_id)

    def page(self, owner: str | None, match: Mapping[str, str], limit: int | None = None,
             marker: str | None = None) -> list[ImageTasksRow]:
        """Return a page of tasks; see nova.db.images.tasks.page."""
        with self._store.db.reader() as conn:
            return db_tasks.page(conn, owner, match, limit, marker)

    def source(self, method: str, url: str | None) -> Source:
        """Check the origin of data.

        :raises BadRequest: the method is not offered, or the URL is missing or refused
        """
        if method not in self.methods:
            raise exception.BadRequest(f'The import method {method[:64]!r} is not offered. Offered: '
                                       f'{", ".join(self.methods) or "none"}.')
        if (method == DOWNLOAD) != (url is not None):
            raise exception.BadRequest(f'uri is needed by {DOWNLOAD}, and no other method takes it.')
        if url is not None:
            self._fetcher.verify(url)
        return Source(method, url)

    def start(self, ctx: RequestContext, image_id: str, source: Source,
              given: JsonObject | None = None) -> ImageTasksRow:
        """Begin an import and return its task.

        :param given: input of the task if a client of the older API created it
        :raises Conflict: the image is not in the status that the method needs
        :raises ServiceBusy: too many downloads wait
        """
        if source.url is None:
            return self._store.db.run(self._activate, ctx, image_id, source.method)
        self._store.files.check_room()
        project_id, data_id = ctx.project_id or '', str(uuid.uuid4())
        if self._queue.waiting >= MAX_WAITING or self._queue.waiting_of(project_id) >= -(-MAX_WAITING // 2):
            raise exception.ServiceBusy(retry_after=BUSY_S)
        with engine.undone_if_unanswered(lambda: self._store.release(image_id, data_id)):
            image, task = self._store.db.run(self._claim, ctx, image_id, data_id, given)
        download = Download(image, data_id, source.url, task['id'], project_id)
        if self._queue.take(project_id, download):
            self._begin(download)
        return task

    def _activate(self, conn: Connection, ctx: RequestContext, image_id: str, method: str) -> ImageTasksRow:
        image = self._store.changeable(conn, ctx, image_id, 'upload_image')
        if image['status'] != resources.STAGED:
            raise exception.Conflict(f"Image {image_id} is in status '{image['status']}'; the import needs data that "
                                     'was staged before.')
        db_images.update(conn, image['id'], {'status': 'active', 'updated_at': utils.utcnow()})
        return _record(conn, ctx, image, method, 'success')

    def _claim(self, conn: Connection, ctx: RequestContext, image_id: str, data_id: str,
               given: JsonObject | None) -> tuple[StoredImage, ImageTasksRow]:
        image = self._store.claim(conn, ctx, image_id, data_id, 0, 'importing')
        return image, _record(conn, ctx, image, DOWNLOAD, 'pending', given)

    def _begin(self, download: Download) -> None:
        try:
            concurrency.spawn('image-import', self._run, download)
        except RuntimeError as error:
            LOG.warning('Cannot start a thread for the import of image %s: %s', download.image['id'], error)
            try:
                self._store.release(download.image['id'], download.data_id)
            except Exception:            # go on: otherwise the slot of the download would never be free again
                LOG.exception('Cannot return image %s to queued.', download.image['id'])
            self._end(download, NO_THREAD)

    def _run(self, download: Download) -> None:
        self._set_status(download, 'processing')
        self._end(download, self._download(download))

    def _end(self, download: Download, message: str) -> None:
        """Record the end of a download, and begin the next ones.

        :param message: reason of a failure, or ''
        """
        self._set_status(download, 'failure' if message else 'success', message)
        for following in self._queue.ended(download.project_id):
            self._begin(following)

    def _set_status(self, download: Download, status: str, message: str = '') -> None:
        """Write the status of a download's task. A database error does not end the download."""
        try:
            self._store.db.run(db_tasks.update, download.task_id,
                               {'status': status, 'message': message, 'updated_at': utils.utcnow()})
        except Exception:
            LOG.exception('Cannot record the status %s of the import of image %s.', status, download.image['id'])

    def _download(self, download: Download) -> str:
        """Download and store the data. Return the reason of a failure, or ''."""
        image_id = download.image['id']
        try:
            self._store.receive(download.image, download.data_id, self._fetcher.chunks(download.url))
        except exception.NovaException as error:
            LOG.warning('Cannot import image %s: %s', image_id, error)
            return str(error)
        except Exception:
            LOG.exception('Cannot import image %s.', image_id)
            return 'The image service failed. The operator finds the reason in its log.'
        return ''


def _record(conn: Connection, ctx: RequestContext, image: StoredImage, method: str, status: str,
            given: JsonObject | None = None) -> ImageTasksRow:
    """Insert the task of an import and return it."""
    now = utils.utcnow()
    task: ImageTasksRow = {
        'id': str(uuid.uuid4()), 'image_id': image['id'], 'type': 'import' if given else 'api_image_import',
        'status': status, 'message': '', 'owner': image['owner'], 'user_id': ctx.user_id,
        'request_id': ctx.request_id, 'created_at': now, 'updated_at': now,
        'input': given or {'image_id': image['id'], 'import_req': {'method': {'name': method}}}}
    db_tasks.insert(conn, task, MAX_TASKS)
    return task
