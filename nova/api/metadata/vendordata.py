"""Vendor data of other services: ``vendor_data2.json`` has one member for each address that the operator lists.

Each gets a POST that describes the server, and answers with JSON. Only listed services are called, no redirect and no
proxy of the environment is followed, and time, size and depth of an answer are bounded.
"""
import logging
import threading
import time
import urllib.parse
from collections.abc import Iterable
from typing import Any

from oslo_config import cfg
import requests
import urllib3

from nova import exception
from nova import objects
from nova import utils
from nova.virt import metadata
from nova.web import json_text

LOG = logging.getLogger(__name__)

MAX_BYTES = 256 * 1024            # of one answer
AT_ONCE = 3                       # requests at once of a process: a target that hangs must not hold all threads
CHUNK = 16 * 1024
OK = 200


def targets(lines: Iterable[str]) -> dict[str, str]:
    """{name: address} of ``[api] vendordata_dynamic_targets``.

    :raises InvalidInput: a line is not NAME@URL
    """
    found = {}
    for line in lines:
        name, _, url = line.strip().partition('@')
        parts = urllib.parse.urlsplit(url)
        if not name or name in found or parts.scheme not in ('http', 'https') or not parts.hostname:
            raise exception.InvalidInput(reason=f'[api] vendordata_dynamic_targets: "{line}" is not NAME@URL, or its '
                                                'name is there twice.')
        found[name] = url
    return found


class VendorData:
    """Falsy when no target is listed.

    :param conf: uses [api] vendordata_* and [metadata] dhcp_domain
    """

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        options = conf.api
        self._targets = targets(options.vendordata_dynamic_targets)
        self._timeouts = options.vendordata_dynamic_connect_timeout, options.vendordata_dynamic_read_timeout
        self._fatal, self._domain = options.vendordata_dynamic_failure_fatal, conf.metadata.dhcp_domain
        self._slots = threading.Semaphore(AT_ONCE)

    def __bool__(self) -> bool:
        return bool(self._targets)

    def document(self, instance: objects.Instance) -> bytes:
        """The content of vendor_data2.json; a target that fails has an empty object.

        :raises TooManyRequests: too many guests ask at the same time
        :raises Unavailable: a target failed, and that is fatal
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

    def _ask(self, name: str, url: str, body: str) -> Any:
        try:
            return json_text.parse(self._post(url, body))
        except (OSError, ValueError, urllib3.exceptions.HTTPError) as error:       # OSError: what requests raises
            LOG.warning('Vendor data of %s failed: %s', name, error)
            if self._fatal:
                raise exception.Unavailable(f'Vendor data of {name} failed.') from None
            return {}

    def _post(self, url: str, body: str) -> bytes:
        ends = time.monotonic() + sum(self._timeouts)
        with requests.Session() as session:
            session.trust_env = False
            with session.post(url, data=body, timeout=self._timeouts, allow_redirects=False, stream=True,
                              headers={'Content-Type': 'application/json', 'Accept': 'application/json',
                                       'Accept-Encoding': 'identity'}) as answer:
                if answer.status_code != OK:
                    raise ValueError(f'it answered with {answer.status_code}')
                found = bytearray()
                while chunk := answer.raw.read1(CHUNK, decode_content=False):       # at most one wait for each
                    found += chunk
                    if len(found) > MAX_BYTES or time.monotonic() > ends:
                        raise ValueError('its answer is too long or too slow')
                return bytes(found)
