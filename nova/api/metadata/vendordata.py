"""Dynamic vendor data: ``vendor_data2.json`` has one member for each service listed in the configuration.

Each service gets a POST that describes the server, and returns JSON. Redirects are not followed, and proxies in
environment variables are not used. Time, size and depth of a response are limited.
"""
import logging
import threading
import time
from collections.abc import Iterable

from oslo_config import cfg
import requests
import urllib3

from nova import exception
from nova import objects
from nova import utils
from nova.json_types import Json
from nova.virt import metadata
from nova.web import json_text

LOG = logging.getLogger(__name__)

MAX_BYTES = 256 * 1024            # maximum size of a response
MAX_CONCURRENT = 3  # maximum concurrent requests of a process, because a target that hangs must not occupy all threads
CHUNK = 16 * 1024
OK = 200


def targets(lines: Iterable[str]) -> dict[str, str]:
    """Parse ``[api] vendordata_dynamic_targets`` into {name: URL}.

    :raises InvalidInput: a line is not NAME@URL, or repeats a name; the error omits the URL, which may have a password
    """
    found: dict[str, str] = {}
    for line in lines:
        name, _, url = line.strip().partition('@')
        try:
            requests.Request('POST', url).prepare()  # a request with an invalid URL would log the URL
        except ValueError:
            url = ''
        if not name or name in found or not url.lower().startswith(('http://', 'https://')):
            raise exception.InvalidInput(reason=f'[api] vendordata_dynamic_targets: line {len(found) + 1} is not '
                                                'NAME@URL, or its name is repeated.')
        found[name] = url
    return found


class VendorData:
    """Client of the vendor data services; falsy without targets.

    :param conf: uses [api] vendordata_* and [metadata] dhcp_domain
    """

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        options = conf.api
        self._targets = targets(options.vendordata_dynamic_targets)
        self._timeouts = options.vendordata_dynamic_connect_timeout, options.vendordata_dynamic_read_timeout
        self._fatal, self._domain = options.vendordata_dynamic_failure_fatal, conf.metadata.dhcp_domain
        self._slots = threading.Semaphore(MAX_CONCURRENT)

    def __bool__(self) -> bool:
        return bool(self._targets)

    def document(self, instance: objects.Instance) -> bytes:
        """Return the content of vendor_data2.json; a failed target has an empty object.

        :raises TooManyRequests: too many concurrent requests
        :raises Unavailable: a target failed, and failures are fatal
        """
        if not self._slots.acquire(blocking=False):
            raise exception.TooManyRequests(retry_after=1)
        try:
            body = utils.dump_json({
                'project-id': instance.project_id, 'instance-id': instance.uuid, 'image-id': instance.image_id,
                'user-data': instance.user_data, 'hostname': metadata.fqdn(instance, self._domain),
                'metadata': instance.metadata, 'boot-roles': ''})
            return utils.dump_json({name: self._ask(name, url, body) for name, url in self._targets.items()}).encode()
        finally:
            self._slots.release()

    def _ask(self, name: str, url: str, body: str) -> Json:
        try:
            return json_text.parse(self._post(url, body))
        except (OSError, ValueError, urllib3.exceptions.HTTPError) as error:       # requests raises OSError
            LOG.warning('Cannot get vendor data from %s: %s', name, error)
            if self._fatal:
                raise exception.Unavailable(f'Cannot get vendor data from {name}.') from None
            return {}

    def _post(self, url: str, body: str) -> bytes:
        ends = time.monotonic() + sum(self._timeouts)
        with requests.Session() as session:
            session.trust_env = False
            with session.post(url, data=body, timeout=self._timeouts, allow_redirects=False, stream=True,
                              headers={'Content-Type': 'application/json', 'Accept': 'application/json',
                                       'Accept-Encoding': 'identity'}) as answer:
                if answer.status_code != OK:
                    raise ValueError(f'unexpected status code {answer.status_code}')
                found = bytearray()
                while chunk := answer.raw.read1(CHUNK, decode_content=False):   # one wait at most, then check the time
                    found += chunk
                    if len(found) > MAX_BYTES or time.monotonic() > ends:
                        raise ValueError('the response is too large or too slow')
                return bytes(found)
