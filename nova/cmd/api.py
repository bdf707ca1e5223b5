"""nova-api: the compute API over HTTP."""
from nova.cmd import common


def parts(conf):
    from nova import wsgi

    return [wsgi.Server(application(conf), conf.http.listen, conf.http.port, threads=conf.http.threads)]


def application(conf):
    """The WSGI application of this process, its databases and its broker.

    :raises DatabaseNotReady, InvalidInput: the deployment is not ready, or not configured
    """
    from nova import compose
    from nova import policy
    from nova.image import api as image_api
    from nova.rpc import bus as rpc_bus

    api_db, cells = compose.checked_databases(conf)
    images = image_api.new(conf, compose.image_store(conf, api_db))
    url = conf.http.public_url or f'http://{conf.my_ip}:{conf.http.port}'
    identity = compose.identity(conf, api_db, url) if conf.identity.backend == 'embedded' else None
    return compose.api(conf, rpc_bus.Bus(conf), api_db, cells, images, policy.Policy(conf), identity)


def main():
    return common.run('nova-api', parts)
