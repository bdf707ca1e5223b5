"""nova-console and nova-consoleauth: placeholders for services that old deployments start.

Tokens are rows of the cells' databases: the API creates them and the proxies read them. No hypervisor needs a separate
console service. These daemons are healthy while the databases are available, and log which services replace them.
"""
import functools
import logging
from typing import Any

from oslo_config import cfg

from nova.cmd import common

LOG = logging.getLogger(__name__)

SENTENCES = {
    'nova-console': 'nova-console has no function: nova-novncproxy, nova-spicehtml5proxy and nova-serialproxy '
                    'connect to the guests themselves. Stop this service.',
    'nova-consoleauth': 'nova-consoleauth has no function: console tokens are in the database of their cell, where '
                        'the proxies read them. Stop this service.',
}


def parts(binary: str, conf: cfg.ConfigOpts) -> list[Any]:
    from nova.cloud import assembly

    api_db, cells = assembly.checked_databases(conf)
    return [assembly.needs(None, api_db, cells), _Sentence(SENTENCES[binary])]


class _Sentence:
    """Part of the process (see nova.runtime.service.Part) that logs a sentence when it starts."""

    def __init__(self, text: str) -> None:
        self._text = text

    def start(self) -> None:
        LOG.warning(self._text)

    def stop(self, timeout: int = 0) -> None:
        """Do nothing."""


def _main(binary: str) -> int:
    return common.run(binary, functools.partial(parts, binary))


console = functools.partial(_main, 'nova-console')
consoleauth = functools.partial(_main, 'nova-consoleauth')
