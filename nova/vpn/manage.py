"""nova-manage vpn: the VPN instances of projects, through the operations of os-cloudpipe."""
from __future__ import annotations

from typing import TYPE_CHECKING

from nova import exception
from nova.cmd import tables
from nova.cmd.manage import projects

if TYPE_CHECKING:
    from oslo_config import cfg

NO_PROJECT = 'nova-manage'           # id for requests that concern no project


def _list(conf: cfg.ConfigOpts) -> None:
    """List the projects that have a VPN instance, the address and port where clients reach it, and its state."""
    with projects.api(conf, NO_PROJECT) as ask:
        found = ask('GET', '/os-cloudpipe')['cloudpipes']
    tables.print_table(('Project', 'Address', 'Port', 'State', 'Server', 'Internal address'), [
        (row['project_id'], row['public_ip'], row['public_port'], row['state'], row['instance_id'],
         row['internal_ip']) for row in found])


def run(conf: cfg.ConfigOpts, project: str) -> None:
    """Make the VPN instance of a project, unless it has one, and print the id of its server."""
    ident = _ident(conf, project)
    with projects.api(conf, ident) as ask:
        print(_run(ask, ident))


def spawn(conf: cfg.ConfigOpts) -> int:
    """Create VPN instances for all projects of the embedded identity service that have none.

    Exit code 1: a VPN instance could not be created.
    """
    from nova.db.identity import directory
    refused = 0
    with projects.api(conf, NO_PROJECT) as ask:
        for row in sorted(projects.identity(conf).list(directory.PROJECT), key=lambda row: row['name']):
            if row['enabled']:
                try:
                    print(f'{row["name"]}: {_run(ask, row["id"])}')
                except exception.NovaException as error:
                    refused += 1
                    print(f'{row["name"]}: {error.message}')
    return int(refused > 0)


def change(conf: cfg.ConfigOpts, project: str, address: str, port: str) -> None:
    """Set the address and port that the API shows for a VPN instance, for example those of a router in front of it.

    This configures no forwarding.
    """
    from nova.cloud import assembly
    from nova.db.projects import vpns
    from nova.vpn import cloudpipe
    checked = cloudpipe.endpoint(address, port)
    api_db, _cells = assembly.checked_databases(conf)
    api_db.run(vpns.configure, _ident(conf, project), *checked)


def _run(ask: projects.Ask, project_id: str) -> str:
    return ask('POST', '/os-cloudpipe', {'cloudpipe': {'project_id': project_id}})['instance_id']


def _ident(conf: cfg.ConfigOpts, project: str) -> str:
    """Return the id of a project. With the embedded identity service, ``project`` may also be a name."""
    from nova.vpn import cloudpipe
    if conf.identity.backend != 'embedded':
        return cloudpipe.checked_project(project)
    return projects.project_row(projects.identity(conf), project)['id']


COMMANDS = {'list': _list, 'run': run, 'spawn': spawn, 'change': change}
OPTIONS = {
    run: {'project': projects.PROJECT},
    change: {'project': projects.PROJECT, 'address': {'metavar': 'ADDRESS', 'help': 'an IP address'},
             'port': {'metavar': 'PORT', 'help': '1 to 65535'}},
}
EXIT_CODES = {spawn: {1: 'a VPN instance could not be created'}}
