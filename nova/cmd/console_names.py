"""nova-console and nova-consoleauth: placeholders for services that old deployments start.

Tokens are rows of the cells' databases: the API creates them and the proxies read them. No hypervisor needs a separate
console service. These daemons are healthy while the databases are available, and log which services replace them.
"""
from __future__ import annotations

import functools
import logging
from typing import Any, TYPE_CHECKING

from nova.cmd import common

if TYPE_CHECKING:
    from oslo_config import cfg

LOG = logging.getLogger(__name__)

SENTENCES = {
    'nova-console': 'nova-console has nothing to do: nova-novncproxy, nova-spicehtml5proxy and nova-serialproxy reach '
                    'the guests by themselves. It can be stopped.',
    'nova-consoleauth': 'nova-consoleauth has nothing to do: tokens of consoles are in the database of their cell, and '
                        'the proxies look there. It can be stopped.',
}


def parts(binary: str, conf: cfg.ConfigOpts) -> list[Any]:
    from nova.cloud import assembly

    api_db, cells = assembly.checked_databases(conf)
    return [assembly.needs(None, api_db, cells), _Sentence(SENTENCES[binary])]


class _Sentence:
    """A part that logs a sentence when it starts."""

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
