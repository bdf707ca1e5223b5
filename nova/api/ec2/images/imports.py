"""Images that are made of bundles: in threads of this process, while their clients look at them as pending.

What is known of an import is in properties of its image, so each process shows it and it ends with the image:
``image_location``; ``image_state``, which is pending, available or failed; ``image_progress``, per cent; and
``image_state_reason``. An import whose process is gone is found by its age: one that goes on writes every minute.
"""
from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
import datetime
import logging
import threading
import time
from typing import Any

from nova import exception
from nova import utils
from nova.api.ec2 import calls
from nova.api.ec2 import errors
from nova.cert import bundles
from nova.cert import manifests
from nova.runtime import concurrency
from nova.web.request import Streams

LOG = logging.getLogger(__name__)

MOST = 8                        # imports of this process, half of them of one project at most; the rest come again
AT_ONCE = 2                     # that are at work: each is the work of a processor
WRITES_S = 60
LOST_S = 600                    # without a write: its process is gone
STEP = 10                       # per cent between two writes
LOCATION, STATE, PROGRESS, REASON = 'image_location', 'image_state', 'image_progress', 'image_state_reason'
PATCH = 'application/openstack-images-v2.1-json-patch'
LOST = 'The process that imported the image was stopped: register it again.'


class Imports:
    """The imports of this process."""

    def __init__(self) -> None:
        self._places, self._turns = Streams(MOST), threading.BoundedSemaphore(AT_ONCE)

    def start(self, caller: calls.Caller, size: int, make: Callable[[], str], pieces: Iterable[bytes]) -> str:
        """Make an image without data, and in a thread make it active; its id.

        :param make: makes the image, gives its id
        :param pieces: its data, ``size`` bytes; a refusal that they raise is what the user hears
        :raises Ec2Error: there is no place for one more, and nothing is made
        """
        project_id = caller.user.project_id
        if not self._places.acquire(project_id):
            raise errors.Ec2Error('RequestLimitExceeded', 'Too many images are imported now: send the request again '
                                  'when one of them is available.', 503)
        try:
            image_id = make()
            concurrency.spawn('ec2-import', self._work, _Import(caller, image_id, size), iter(pieces), project_id)
        except BaseException:
            self._places.release(project_id)
            raise
        return image_id

    def _work(self, work: _Import, pieces: Iterator[bytes], project_id: str) -> None:
        try:
            while not self._turns.acquire(timeout=WRITES_S):
                work.write({PROGRESS: '0'})
            try:
                work.run(pieces)
            finally:
                self._turns.release()
        except (errors.Ec2Error, errors.ServiceRefused) as error:
            LOG.info('An image that was waiting is not imported: %s', error)
        except Exception:
            LOG.exception('An image could not be imported.')
        finally:
            self._places.release(project_id)


class _Import:
    """One import.

    :param size: bytes of the image
    """

    def __init__(self, caller: calls.Caller, image_id: str, size: int) -> None:
        self._caller, self._image_id, self._size = caller, image_id, size

    def write(self, values: dict[str, str]) -> None:
        """Set properties of the image.

        :raises ServiceRefused: it was deregistered, or the user may not any more
        """
        self._caller.call('image', 'PATCH', f'/images/{self._image_id}', headers={'Content-Type': PATCH}, body=[
            {'op': 'add', 'path': f'/{name}', 'value': value} for name, value in values.items()])

    def run(self, pieces: Iterator[bytes]) -> None:
        body = calls.Body(self._counted(pieces), self._size)
        try:
            self._caller.call('image', 'PUT', f'/images/{self._image_id}/file', body)
            self.write({STATE: 'available', PROGRESS: '100'})
            LOG.info('Image %s was imported.', self._image_id)
        except (errors.Ec2Error, errors.ServiceRefused) as error:
            self._fail(body.error or error)

    def _fail(self, error: Exception) -> None:
        reason = getattr(error, 'message', None)
        if not isinstance(error, (exception.NovaException, errors.Ec2Error, errors.ServiceRefused)) or not reason:
            LOG.error('Image %s could not be imported.', self._image_id, exc_info=error)
            reason = 'An internal error has occurred.'
        LOG.warning('Image %s was not imported: %s', self._image_id, reason)
        try:
            self.write({STATE: 'failed', REASON: str(reason)[:255]})
        except (errors.Ec2Error, errors.ServiceRefused) as gone:
            LOG.info('Image %s is not there any more: %s', self._image_id, gone)

    def _counted(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        """The pieces; how far they are is written to the image."""
        done, shown, wrote = 0, 0, time.monotonic()
        for piece in pieces:
            yield piece
            done += len(piece)
            share = 100 * done // self._size
            if share < 100 and (share >= shown + STEP or time.monotonic() > wrote + WRITES_S):
                self.write({PROGRESS: str(share)})
                shown, wrote = share, time.monotonic()
            time.sleep(0)                     # files and processors do not let other green threads go on


def pieces_of(caller: calls.Caller, bucket: str, folder: str, manifest: manifests.Manifest, key: str, iv: str,
              limit: int, path_of: Callable[[str, str], str]) -> Iterator[bytes]:
    """The image of a bundle whose parts are objects next to its manifest.

    :param folder: what the names of the parts are put behind
    :param path_of: (bucket, key) -> path of an object
    :raises InvalidInput: the bundle is not what the manifest says
    :raises Ec2Error: a part is not there
    """
    def open_part(name: str) -> Iterator[bytes]:
        try:
            yield from caller.read('object', path_of(bucket, folder + name), manifest.bundled_size)
        except errors.ServiceRefused as refused:
            if refused.status != 404:
                raise
            raise errors.Ec2Error('InvalidManifest', f'The part {name} of the image is not in the object store.'
                                  ) from None
    return bundles.unbundle(manifest, key, iv, open_part, limit)


def state_of(image: dict[str, Any]) -> tuple[str | None, str | None]:
    """(state of EC2, reason) of an image without data that was imported; None where its own status says it."""
    state = image.get(STATE)
    if image['status'] not in ('queued', 'saving') or state not in ('pending', 'failed'):
        return None, None
    if state == 'failed':
        return 'failed', image.get(REASON)
    changed = datetime.datetime.fromisoformat(image['updated_at']).replace(tzinfo=None)
    if utils.utcnow() - changed > datetime.timedelta(seconds=LOST_S):
        return 'failed', LOST
    return 'pending', f'The image is imported: {image.get(PROGRESS) or 0} %.'
