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
    from nova.runtime import wsgi
    from nova.runtime.http import priorities

    certificate = tls.of_files(conf.http, 'objectstore')
    application = object_store.application(conf, policy.Policy(conf), object_store.remote_signers(conf))
    mounts = wsgi.Mounts([wsgi.Mount('', application, max_body=None)], lambda url: {})
    threads = conf.http.threads
    plan = priorities.Plan(threads, max(2, threads // 2), (), [priorities.Face(b'(PUT|POST) /', '', uploads=True)])
    return [assembly.needs(None, None, None), *([certificate] if certificate else ()),
            wsgi.Server(mounts, conf.objectstore.listen, conf.objectstore.port, plan=plan, drain=conf.http.drain_time,
                        trusted=conf.http.trusted_proxies, tls=certificate and certificate.context)]


def main() -> int:
    return common.run('nova-objectstore', parts)
