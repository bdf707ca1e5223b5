"""os-certificates: certificates of users from nova-cert; requires [api] nova_network_resources.

nova/api/documents/removed.py has the routes and policy rules.
"""
from typing import Any

from nova import exception
from nova.api import request as api_request
from nova.db.audit import log
from nova.json_types import JsonDocument


def _show(req: api_request.Request, id: str) -> JsonDocument:
    if id != 'root':
        raise exception.Unsupported(
            'Only the certificate of the authority can be shown: use the path os-certificates/root.')
    return _view(req.services.cert.fetch_ca(req.context, project_id=req.context.project_id), None)


def _create(req: api_request.Request) -> JsonDocument:
    context = req.context
    made = req.services.cert.generate_x509_cert(context, user_id=context.user_id, project_id=context.project_id)
    log.about(made['serial'])
    return _view(made['certificate'], made['private_key'])


def _view(certificate: str, key: str | None) -> JsonDocument:
    return {'certificate': {'data': certificate, 'private_key': key}}


SERVED: dict[tuple[str, str], Any] = {('os-certificates/{id}', 'GET'): _show, ('os-certificates', 'POST'): _create}


def serve(req: api_request.Request, path: str, name: str, **parts: str) -> JsonDocument:
    """Run an operation.

    :raises Unsupported, QuotaExceeded, Unavailable: see the handlers
    """
    return SERVED[path, name](req, **parts)
