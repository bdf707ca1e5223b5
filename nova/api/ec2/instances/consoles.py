"""What one sees of a guest from outside: its console, its password."""
from __future__ import annotations

import base64
import datetime
from typing import Any

from nova.api.ec2 import operations
from nova.api.ec2.instances import views


def get_console_output(req: operations.Request, given: operations.Given) -> dict[str, Any]:
    server = views.one_of(req, given)
    answer = req.call('compute', 'POST', f'/servers/{server["id"]}/action', {'os-getConsoleOutput': {}})
    return {'InstanceId': req.ids.one('i', server['id']), 'Timestamp': datetime.datetime.now(datetime.UTC),
            'Output': base64.b64encode(answer['output'].encode()).decode()}


def get_password_data(req: operations.Request, given: operations.Given) -> dict[str, Any]:
    server = views.one_of(req, given)
    found = req.call('compute', 'GET', f'/servers/{server["id"]}/os-server-password')
    return {'InstanceId': req.ids.one('i', server['id']), 'Timestamp': datetime.datetime.now(datetime.UTC),
            'PasswordData': found['password']}


OPERATIONS = [
    operations.row('GetConsoleOutput', get_console_output, 'InstanceId', 'Latest'),
    operations.row('GetPasswordData', get_password_data, 'InstanceId'),
]
