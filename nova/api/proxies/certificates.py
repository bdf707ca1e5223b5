"""os-certificates: what nova-cert makes for a user, by [api] nova_network_resources.

The rows are those of documents/removed.py, as of nova_network.py.
"""
from nova import exception
from nova.db.audit import log

SHOW, CREATE = 'nova:certificates:show', 'nova:certificates:create'


def _show(req, id):
    req.authorize(SHOW)
    if id != 'root':
        raise exception.Unsupported('Only the certificate of the authority can be shown: os-certificates/root.')
    return _view(req.services.cert.fetch_ca(req.context, project_id=req.context.project_id), None)


def _create(req):
    req.authorize(CREATE)
    context = req.context
    made = req.services.cert.generate_x509_cert(context, user_id=context.user_id, project_id=context.project_id)
    log.about(made['serial'])
    return _view(made['certificate'], made['private_key'])


def _view(certificate, key):
    return {'certificate': {'data': certificate, 'private_key': key}}


SERVED = {('os-certificates/{id}', 'GET'): _show, ('os-certificates', 'POST'): _create}
CHECKS = {('os-certificates/{id}', 'GET'): (SHOW,), ('os-certificates', 'POST'): (CREATE,)}


def serve(req, path, name, **parts):
    """What one of them answers.

    :raises PolicyDenied, Unsupported, QuotaExceeded, Unavailable:
    """
    return SERVED[path, name](req, **parts)


def code(name):
    """The code of success."""
    return 200


def offered(req):
    """Whether this deployment has them."""
    return req.services.conf.api.nova_network_resources
