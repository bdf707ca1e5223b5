"""nova-api-metadata: the metadata service for proxies, which name a guest in headers and prove it with a signature.

Guests on this host's bridges are served by nova-network itself.
"""
from nova.cmd import common


def parts(conf):
    from nova import compose
    from nova import exception
    from nova import wsgi
    from nova.api.metadata import app
    from nova.runtime.http import lanes

    if not conf.metadata.shared_secret:
        raise exception.InvalidInput(reason='[metadata] shared_secret is not set: without it no proxy is believed.')
    api_db, cells = compose.checked_databases(conf)
    return [compose.needs(None, api_db, cells),
            wsgi.Server(app.Application(conf, api_db, cells), conf.network.metadata_host or conf.my_ip,
                        conf.metadata.port, plan=lanes.Plan(conf.http.threads, 1), trusted=conf.http.trusted_proxies)]


def main():
    return common.run('nova-api-metadata', parts)
