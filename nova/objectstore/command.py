"""nova-objectstore: objects in buckets, over S3's protocol, in files of this host."""
from typing import Any

from oslo_config import cfg

from nova.cmd import common


def parts(conf: cfg.ConfigOpts) -> list[Any]:
    from nova import policy
    from nova.cloud import assembly
    from nova.objectstore import part
    from nova.runtime import tls

    certificate = tls.of_files(conf.http, 'objectstore')
    finish, api_db = part.finish_of(conf)
    application = part.application(conf, policy.Policy(conf), part.RemoteCallers(conf), finish)
    return [assembly.needs(None, api_db, None), *([certificate] if certificate else ()),
            part.server(conf, application, conf.http.threads, certificate)]


def main() -> int:
    return common.run('nova-objectstore', parts)
