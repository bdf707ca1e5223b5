"""nova-api: the compute API over HTTP."""
from nova.cmd import common


def parts(conf):
    from nova import compose
    from nova import policy
    from nova import wsgi
    from nova.image import api as image_api
    from nova.rpc import bus as rpc_bus

    api_db, cells = compose.checked_databases(conf)
    images = image_api.new(conf, compose.image_store(conf, api_db))
    url = conf.http.public_url or f'http://{conf.my_ip}:{conf.http.port}'
    identity = compose.identity(conf, api_db, url) if conf.identity.backend == 'embedded' else None
    application = compose.api(conf, rpc_bus.Bus(conf), api_db, cells, images, policy.Policy(conf), identity)
    return [wsgi.Server(application, conf.http.listen, conf.http.port, threads=conf.http.threads)]


def main():
    return common.run('nova-api', parts)
