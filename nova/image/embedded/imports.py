"""Imports: the data of an image comes from a URL (web-download), or was staged before (glance-direct).

A few threads download, each at most one image. Tasks tell what became of the imports since the start of the process.
After a restart, images of interrupted downloads are queued again (Store.recover).
"""
from __future__ import annotations

import collections
from collections.abc import Iterable
import dataclasses
import datetime
import functools
import logging
import threading
import typing
import uuid

from nova import exception
from nova import utils
from nova.db.engine import Connection
from nova.db.images import images as db_images
from nova.image import fetch
from nova.image import resources
from nova.runtime import concurrency

if typing.TYPE_CHECKING:
    from nova.context import RequestContext
    from nova.db.engine import Database
    from nova.image.embedded.files import Files
    from nova.image.embedded.stored_image import StoredImage
    from nova.json_types import JsonObject

LOG = logging.getLogger(__name__)

DIRECT, DOWNLOAD = 'glance-direct', 'web-download'
METHODS = (DIRECT, DOWNLOAD)
MAX_RUNNING = 4                  # concurrent downloads; most of a download is waiting for the network
MAX_WAITING = 64                 # downloads that wait for a thread; the next one is refused
MAX_IMAGES = 1000                # images with tasks
MAX_TASKS = 8                    # tasks of an image; older ones are forgotten
BUSY_S = 30                      # seconds after which a refused client may retry
REFUSAL = '{host} has an address that is not public or belongs to this cloud.'      # does not show internal addresses


class Settings(typing.NamedTuple):
    """Configuration of imports.

    methods    offered methods
    networks   networks that may be reached although they are not public
    own        hosts of the control plane, which are refused unless networks has them
    """

    methods: tuple[str, ...] = METHODS
    networks: tuple[fetch.Network, ...] = ()
    own: tuple[str, ...] = ()


@dataclasses.dataclass
class Task:
    """One import; the fields are those of the Image API."""

    image_id: str
    method: str
    owner: str | None
    user_id: str | None
    request_id: str | None
    status: str = 'pending'
    message: str = ''
    type: str = 'api_image_import'
    given: JsonObject | None = None      # input of a task that a client created
    id: str = dataclasses.field(default_factory=lambda: str(uuid.uuid4()))
    created_at: datetime.datetime = dataclasses.field(default_factory=utils.utcnow)
    updated_at: datetime.datetime = dataclasses.field(default_factory=utils.utcnow)

    def change(self, status: str, message: str = '') -> None:
        self.status, self.message, self.updated_at = status, message, utils.utcnow()

    def document(self) -> JsonObject:
        return {'id': self.id, 'type': self.type, 'status': self.status, 'message': self.message,
                'image_id': self.image_id, 'owner': self.owner, 'user_id': self.user_id,
                'request_id': self.request_id, 'result': None,
                'input': self.given or {'image_id': self.image_id, 'import_req': {'method': {'name': self.method}}},
                'created_at': utils.isotime(self.created_at), 'updated_at': utils.isotime(self.updated_at)}


class Download(typing.NamedTuple):
    """A download that waits for a thread."""

    image: StoredImage
    data_id: str
    url: str
    task: Task


class Store(typing.Protocol):
    """The methods of the image store that imports use: nova.image.embedded.service."""

    db: Database
    files: Files

    def changeable(self, conn: Connection, ctx: RequestContext, image_id: str, rule: str) -> StoredImage: ...

    def claim(self, conn: Connection, ctx: RequestContext, image_id: str, data_id: str, length: int,
              status: str) -> StoredImage: ...

    def receive(self, image: StoredImage, data_id: str, chunks: Iterable[bytes]) -> None: ...


class Imports:
    """Imports into one store.

    :param store: the store
    :param settings: its configuration
    """

    def __init__(self, store: Store, settings: Settings) -> None:
        self.methods, self._settings, self._store = settings.methods, settings, store
        self._tasks: collections.OrderedDict[str, collections.deque[Task]] = collections.OrderedDict()
        self._waiting: collections.deque[Download] = collections.deque()
        self._running = 0
        self._lock = threading.Lock()

    @functools.cached_property
    def _fetcher(self) -> fetch.Fetcher:
        return fetch.Fetcher(self._store.files.max_size, self._settings.networks, schemes=('https', 'http'),
                             own=self._settings.own, refusal=REFUSAL)

    def tasks(self, image_id: str) -> list[Task]:
        """Return the tasks of an image, oldest first."""
        with self._lock:
            return list(self._tasks.get(image_id, ()))

    def every(self) -> list[Task]:
        """Return all tasks, newest first."""
        with self._lock:
            found = [task for tasks in self._tasks.values() for task in tasks]
        return sorted(found, key=lambda task: (task.created_at, task.id), reverse=True)

    def verify(self, url: str) -> None:
        """Check that a web-download may begin.

        :raises BadRequest: the method is not offered, or the URL is refused
        """
        if DOWNLOAD not in self.methods:
            raise exception.BadRequest(f'The import method {DOWNLOAD} is not offered.')
        self._fetcher.verify(url)

    def start(self, ctx: RequestContext, image_id: str, method: str, url: str | None) -> Task:
        """Begin an import and return its task.

        :param url: of a web-download
        :raises BadRequest: the method is not offered, or the URL is missing or refused
        :raises Conflict: the image is not in the status that the method needs
        :raises ServiceBusy: too many downloads wait
        """
        if method not in self.methods:
            raise exception.BadRequest(f'The import method {method[:64]!r} is not offered. Offered: '
                                       f'{", ".join(self.methods) or "none"}.')
        if (method == DOWNLOAD) != (url is not None):
            raise exception.BadRequest(f'uri is needed by {DOWNLOAD}, and no other method takes it.')
        if url is not None:
            return self._begin(ctx, image_id, url)
        image = self._store.db.run(self._activate, ctx, image_id)
        task = self._remember(ctx, image, method)
        task.change('success')
        return task

    def _activate(self, conn: Connection, ctx: RequestContext, image_id: str) -> StoredImage:
        image = self._store.changeable(conn, ctx, image_id, 'upload_image')
        if image['status'] != resources.STAGED:
            raise exception.Conflict(f"Image {image_id} is in status '{image['status']}'; the import needs data that "
                                     'was staged before.')
        db_images.update(conn, image['id'], {'status': 'active', 'updated_at': utils.utcnow()})
        return image

    def _begin(self, ctx: RequestContext, image_id: str, url: str) -> Task:
        self._fetcher.verify(url)
        self._store.files.check_room()
        with self._lock:
            if len(self._waiting) >= MAX_WAITING:
                raise exception.ServiceBusy(retry_after=BUSY_S)
        data_id = str(uuid.uuid4())
        image = self._store.db.run(self._store.claim, ctx, image_id, data_id, 0, 'importing')
        task = self._remember(ctx, image, DOWNLOAD)
        with self._lock:
            self._waiting.append(Download(image, data_id, url, task))
            if self._running >= MAX_RUNNING:
                return task
            self._running += 1
        try:
            concurrency.spawn('image-import', self._run)
        except RuntimeError as error:            # no more threads: a running one or the next import takes it
            with self._lock:
                self._running -= 1
            LOG.warning('Cannot start a thread for the import of image %s: %s', image['id'], error)
        return task

    def _remember(self, ctx: RequestContext, image: StoredImage, method: str) -> Task:
        task = Task(image['id'], method, image['owner'], ctx.user_id, ctx.request_id)
        with self._lock:
            self._tasks.setdefault(image['id'], collections.deque(maxlen=MAX_TASKS)).append(task)
            self._tasks.move_to_end(image['id'])
            if len(self._tasks) > MAX_IMAGES:
                self._tasks.popitem(last=False)
        return task

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._running -= 1
                    return
                download = self._waiting.popleft()
            self._download(download)

    def _download(self, download: Download) -> None:
        image_id, task = download.image['id'], download.task
        task.change('processing')
        try:
            self._store.receive(download.image, download.data_id, self._fetcher.chunks(download.url))
        except exception.NovaException as error:
            LOG.warning('Cannot import image %s: %s', image_id, error)
            task.change('failure', str(error))
        except Exception:
            LOG.exception('Cannot import image %s.', image_id)
            task.change('failure', 'The image service failed. The operator finds the reason in its log.')
        else:
            task.change('success')
