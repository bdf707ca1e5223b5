"""nova-api-metadata: the metadata service for proxies, which name a guest in headers and prove it with a signature.

Guests on this host's bridges are served by nova-network itself.
"""
from nova.cmd import common


def parts(conf):
    from nova import exception
    from nova.api.metadata import app
    from nova.cloud import assembly
    from nova.runtime import wsgi
    from nova.runtime.http import priorities

    if not conf.metadata.shared_secret:
        raise exception.InvalidInput(reason='[metadata] shared_secret is not set: without it no proxy is believed.')
    api_db, cells = assembly.checked_databases(conf)
    return [assembly.needs(None, api_db, cells),
            wsgi.Server(app.Application(conf, api_db, cells), conf.network.metadata_host or conf.my_ip,
                        conf.metadata.port, plan=priorities.Plan(conf.http.threads, 1),
                        trusted=conf.http.trusted_proxies)]


def main():
    return common.run('nova-api-metadata', parts)
