"""Requests of nova-manage commands to the compute API, with all checks of the API.

In a deployment with a message broker, the API runs in the process of the command. Otherwise a running nova-all
serves the request.
"""
from __future__ import annotations

import contextlib
import io
import json
import os
import pathlib
from collections.abc import Iterator
from typing import Any, TYPE_CHECKING

from nova import exception

if TYPE_CHECKING:
    from oslo_config import cfg

    from nova.cloud.assembly import Application
    from nova.db.cells.cells import Cells
    from nova.db.engine import Database
    from nova.exception import NovaException
    from nova.json_types import JsonDocument


@contextlib.contextmanager
def opened(conf: cfg.ConfigOpts) -> Iterator[tuple[Application | None, Database, Cells]]:
    """Yield (API in this process, or None if a running nova-all provides it; API database; Cells)."""
    from nova import policy
    from nova.api import app
    from nova.cloud import apis
    from nova.cloud import assembly
    from nova.rpc import bus as rpc_bus

    if not rpc_bus.configured(conf):
        yield None, *assembly.checked_databases(conf)
        return
    with contextlib.closing(rpc_bus.Bus(conf)) as bus:
        api_db, cells = assembly.checked_databases(conf, bus)
        yield app.Application(apis.api_services(conf, bus, api_db, cells, assembly.images(conf, api_db),
                                                policy.Policies(conf))), api_db, cells


def ask(application: Application, project: str, method: str, path: str, body: JsonDocument | None,
        microversion: str = 'latest', query: str = '', user: str = 'nova-manage', **more: object) -> Any:
    """Return the JSON document of an API response, or None if the response has no body.

    :param project: id of the project of the administrator's request
    :param path: path after the version
    :param user: id of the administrator
    :param more: additional keys of the WSGI environ
    :raises NotFound: the resource does not exist
    :raises NovaException: the API refuses the request; with its error message
    """
    from nova import context

    data = b'' if body is None else json.dumps(body).encode()
    caller = context.RequestContext(project_id=project, roles=['admin', 'member', 'reader'], is_admin=True,
                                    user_id=user, overwrite=False)
    started = []
    answer = b''.join(application({
        'REQUEST_METHOD': method, 'SCRIPT_NAME': '', 'PATH_INFO': '/v2.1' + path, 'QUERY_STRING': query,
        'wsgi.url_scheme': 'http', 'HTTP_HOST': 'localhost', 'SERVER_NAME': 'localhost', 'SERVER_PORT': '80',
        'wsgi.input': io.BytesIO(data), 'CONTENT_LENGTH': str(len(data)), 'CONTENT_TYPE': 'application/json',
        'HTTP_OPENSTACK_API_VERSION': f'compute {microversion}', 'nova.context': caller, **more},
        lambda status, headers: started.append(int(status[:3]))))
    document: Any = json.loads(answer) if answer else None
    if started[0] >= 300:
        refusal = document.get('errors') or list(document.values())
        raise _error(started[0])(refusal[0].get('message') or refusal[0].get('detail'))
    return document


def ask_all_in_one(conf: cfg.ConfigOpts, path: str, body: JsonDocument | None, microversion: str, method: str = 'POST',
                   query: str = '') -> tuple[Any, str | None]:
    """Send a request to a running nova-all. Return (JSON document of the response or None, CA file of nova-all).

    :param path: path after the version
    :raises NotFound: the resource does not exist
    :raises NovaException: no nova-all responds, or it refuses the request; with its error message
    """
    from keystoneauth1 import exceptions as client_errors
    from keystoneauth1 import session as sessions
    from keystoneauth1.identity import v3
    import requests
    import yaml

    from nova.runtime import host_identity

    file = pathlib.Path(host_identity.state_path(conf)) / 'clouds.yaml'
    try:
        cloud = yaml.safe_load(file.read_text())['clouds']['nova-admin']
        authority, root = cloud.get('cacert'), cloud['auth']['auth_url'].rpartition('/identity')[0]
        direct = requests.Session()
        direct.trust_env = False             # A proxy of the environment would get the password.
        session = sessions.Session(v3.Password(**cloud['auth']), session=direct,
                                   verify=authority or os.environ.get('REQUESTS_CA_BUNDLE') or True)
    except OSError as error:
        raise exception.NovaException(f'{file} cannot be read ({error.strerror}): name the directory of nova-all with '
                                      '--state-path, or a configuration file that names the message broker with '
                                      '--config-file.')
    except (yaml.YAMLError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise exception.NovaException(f'{file} has no usable entry nova-admin ({type(error).__name__}). Its key auth '
                                      'must contain auth_url, username, password and project_name.') from error
    try:
        answer = session.request(f'{root}/compute/v2.1{path}' + (query and f'?{query}'), method, raise_exc=False,
                                 headers={'OpenStack-API-Version': f'compute {microversion}'}, json=body)
    except client_errors.ClientException as error:
        raise exception.NovaException(f'nova-all does not answer at {root}: {error}')
    try:
        document: Any = answer.json() if answer.content else None
        if answer.ok:
            return document, authority
        refusal = next(iter(document.values()))['message']
    except (ValueError, LookupError, TypeError, AttributeError, StopIteration):
        raise exception.NovaException(f'{root} answers {answer.status_code} {answer.reason}, but not as a compute API. '
                                      'Check nova-all, and the proxy in front of it if there is one.')
    raise _error(answer.status_code)(refusal)


def _error(code: int) -> type[NovaException]:
    return exception.NotFound if code == 404 else exception.NovaException
