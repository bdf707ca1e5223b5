"""nova-api: the compute API over HTTP."""
from nova.cmd import common


def parts(conf):
    from nova import compose
    from nova import wsgi
    from nova.rpc import bus as rpc_bus

    api_db, cells = compose.checked_databases(conf)
    application = compose.api(conf, rpc_bus.Bus(conf), api_db, cells)
    return [wsgi.Server(application, conf.http.listen, conf.http.port, threads=conf.http.threads)]


def main():
    return common.run('nova-api', parts)
