"""nova-objectstore: objects in buckets, over S3's protocol, in files of this host."""
from __future__ import annotations

from typing import Any, TYPE_CHECKING

from nova.cmd import common

if TYPE_CHECKING:
    from oslo_config import cfg


def parts(conf: cfg.ConfigOpts) -> list[Any]:
    from nova import policy
    from nova.cloud import assembly
    from nova.cloud import object_store
    from nova.runtime import tls

    certificate = tls.of_files(conf.http, 'objectstore')
    finish, api_db = object_store.finish_of(conf)
    application = object_store.application(conf, policy.Policy(conf), object_store.RemoteCallers(conf), finish)
    return [assembly.needs(None, api_db, None), *([certificate] if certificate else ()),
            object_store.server(conf, application, conf.http.threads, certificate)]


def main() -> int:
    return common.run('nova-objectstore', parts)
