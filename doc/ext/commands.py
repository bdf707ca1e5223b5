"""A Sphinx extension that writes doc/source/cli before the sources are read: a man page for every program.

The page of nova-manage is generated from the table of its commands.
"""
import rst

from nova.cmd import rootwrap
from nova.cmd.manage import main as manage
from nova.network.linux import dhcpbridge

# program: (title, description)
DAEMONS = {
    'nova-all': ('a whole cloud in one process',
                 'Serves the identity, image, network, block storage and compute APIs and runs guests. It needs '
                 'libvirt and QEMU, or nothing with --driver fake. --help lists its own options.'),
    'nova-api': ('the compute API',
                 'Serves the compute API over HTTP. Several instances may run behind a load balancer.'),
    'nova-api-os-compute': ('the compute API', 'Another name of nova-api, which serves only the compute API.'),
    'nova-api-ec2': ('the EC2 API',
                     'Serves the EC2 API over HTTP. It calls the other services as the user who signed the request. '
                     '[ec2] has the account that asks the Identity service about signatures. Several instances may '
                     'run.'),
    'nova-api-metadata': ('the metadata service for proxies',
                          'Serves the metadata of guests to the proxies of a network service. A proxy names the guest '
                          'in headers and signs them with [metadata] shared_secret. nova-network serves guests on its '
                          'own bridges.'),
    'nova-novncproxy': ('screens of servers in a browser',
                        'Serves noVNC and connects it to the VNC servers of guests. Several instances may run.'),
    'nova-spicehtml5proxy': ('screens of servers in a browser, over SPICE',
                             'Serves spice-html5 and connects it to the SPICE servers of guests. Several instances '
                             'may run.'),
    'nova-serialproxy': ('serial ports of servers over WebSockets',
                         'Serves a terminal for browsers and connects WebSockets to the serial ports of guests. '
                         'Several instances may run.'),
    'nova-xvpvncproxy': ('a placeholder for a removed proxy', 'Prints that Java viewers are not supported.'),
    'nova-console': ('a placeholder for a removed service', 'Prints which service replaces it.'),
    'nova-consoleauth': ('a placeholder for a removed service', 'Prints where console tokens are stored.'),
    'nova-conductor': ('tasks of servers, and database access for compute services',
                       'Builds, moves and repairs servers. It writes to the database for services without database '
                       'credentials. Several instances may run.'),
    'nova-scheduler': ('placement of servers', 'Selects the hosts of servers. Several instances may run.'),
    'nova-cert': ('a certificate authority for users',
                  'Issues and revokes certificates for users of projects, and decrypts the keys of bundled images. The '
                  'compute API calls it for os-certificates if [api] nova_network_resources is on. Run one instance, '
                  'on the host with the directory of the keys. nova-manage cert works on that directory.'),
    'nova-objectstore': ('objects in buckets for S3 clients',
                         'Stores objects in files of its host and serves them over S3. Requests are signed with EC2 '
                         'credentials. It asks the Identity service with the account of [ec2]. Run one instance. It '
                         'needs no broker and no database.'),
    'nova-network': ('addresses, bridges, DHCP and packet filters',
                     'Allocates the addresses of servers. On each host it configures bridges, DHCP servers and packet '
                     'filters.'),
    'nova-volume': ('the embedded block storage of a fleet',
                    'Stores volumes in files of its host, serves the Block Storage API v3, and exports volumes to '
                    'compute hosts over NBD with TLS. Run one instance. Exports survive a restart of it.'),
    'nova-compute': ('the guests of a host',
                     'Runs the guests of one host. It needs a broker and the Image service, but no database. Guests '
                     'survive a restart of it.'),
}
OTHERS = {
    'nova-manage': 'commands for administrators',
    'nova-policy': 'effective policy rules',
    'nova-status': 'readiness of an upgrade',
    'nova-api-wsgi': 'the compute API for WSGI servers',
    'nova-dhcpbridge': 'lease events of DHCP servers',
    'nova-rootwrap': 'root commands of older deployments',
    'nova-virtiofsd': 'mount of a share for a guest',
}
SIGNALS = (('SIGTERM, SIGINT', 'Accept no new work, finish current work for at most graceful_shutdown_timeout seconds, '
                               'and exit. A second signal exits immediately.'),
           ('SIGHUP', 'Reload the configuration. Options that cannot change at run time keep their values.'),
           ('SIGUSR1', 'Write a Guru Meditation Report to standard error, or to a file in [oslo_reports] log_dir. It '
                       'has the package, threads and green threads with stacks, processes, health, tasks, and the '
                       'configuration without secrets.'))
GENERAL = (('--config-file PATH', 'A configuration file. The option may be repeated; later files override earlier '
                                  'ones. Default: /etc/nova/nova.conf.'),
           ('--config-dir DIRECTORY', 'A directory of *.conf files, read after the configuration files, in order.'),
           ('--debug, --log-file PATH, --log-dir DIRECTORY', 'Log level and log file. Default: standard error.'),
           ('--state-path DIRECTORY', 'The state directory.'),
           ('--help', 'Print the options and exit.'))
# (exit code, when)
DAEMON_CODES = (('0', 'Orderly end.'), ('1', 'The program cannot run; it prints the reason.'),
                ('2', 'Wrong command line or configuration file.'))
STATUS_CODES = (('0', 'All checks succeeded.'), ('1', 'At least one check warns.'), ('2', 'At least one check failed.'),
                ('255', 'A check could not run.'))
POLICY_CODES = (('0', 'The caller is allowed, or the rules are listed.'), ('1', 'The caller is refused.'),
                ('2', 'Wrong command line, configuration or policy file.'))
MANAGE_CODES = (('0', 'Success.'), ('1', 'The command failed; it prints the reason.'), ('2', 'Wrong command line.'))
ROOTWRAP_CODES = tuple((str(code), text) for code, text in (
    (0, 'The step succeeded.'), (rootwrap.FAILED, 'The step failed.'), (rootwrap.BAD_OPTION, 'Unknown option.'),
    (rootwrap.UNKNOWN, 'The command maps to no step.'), (rootwrap.BAD_CONFIG, 'The configuration is wrong.'),
    (rootwrap.NO_COMMAND, 'The command is missing.'), (rootwrap.REFUSED, 'No filter allows the command.')))
VIRTIOFSD_CODES = (('1', 'The share cannot be mounted; the program prints the reason.'),
                   ('2', 'The arguments name no directory of a share.'))
FILES = ('/etc/nova/nova.conf', '/etc/nova/nova.conf.d/', '/etc/nova/api-paste.ini', '/etc/nova/policy.yaml')

MAN_PAGES = [(f'cli/{name}', name, about, 'the Nova developers', 1)
             for name, about in {**{name: about for name, (about, _text) in DAEMONS.items()}, **OTHERS}.items()]


def setup(app):
    app.connect('builder-inited', write)
    return {'parallel_read_safe': True}


def write(app):
    rst.write(app, 'cli', pages())


def pages():
    """{name: lines}"""
    found = {name: _daemon(name, *words) for name, words in DAEMONS.items()}
    found |= {'nova-manage': _manage(), 'nova-policy': _policy(), 'nova-status': _status(), 'nova-api-wsgi': _wsgi(),
              'nova-dhcpbridge': _dhcpbridge(), 'nova-rootwrap': _rootwrap(), 'nova-virtiofsd': _virtiofsd()}
    found['exit-codes'] = _exit_codes()
    return {**found, 'index': [*rst.heading('Commands'), '.. toctree::', '   :maxdepth: 1', '',
                               *(f'   {name}' for name in found)]}


def _exit_codes():
    """The exit codes of all programs in one table."""
    rows = [('daemons', *row) for row in DAEMON_CODES] + [('nova-status', *row) for row in STATUS_CODES]
    rows += [('nova-policy', *row) for row in POLICY_CODES] + [('nova-manage', *row) for row in MANAGE_CODES]
    for category, actions in manage.COMMANDS.items():
        for action, function in ({'': actions} if callable(actions) else actions).items():
            rows += [(f'nova-manage {category} {action}'.strip(), str(code), text)
                     for code, text in manage.EXIT_CODES.get(function, {}).items()]
    rows += [('nova-rootwrap', *row) for row in ROOTWRAP_CODES]
    rows += [('nova-virtiofsd', *row) for row in VIRTIOFSD_CODES]
    return [*rst.heading('Exit codes'), 'Commands that are not listed have the codes of their program.', '',
            *rst.table(('Command', 'Code', 'Meaning'), rows)]


def _head(name, about, synopsis, *text):
    return [*rst.heading(name)[1:], about[0].upper() + about[1:] + '.', *rst.heading('Synopsis', '-'), '::', '',
            *(f'    {line}' for line in synopsis), *rst.heading('Description', '-'), *text]


def _definitions(rows):
    return [line for term, text in rows for line in (f'``{term}``', f'    {rst.escaped(text) or "As usual."}', '')]


def _tail(*others):
    return [*rst.heading('Files', '-'), *(f'* ``{name}``' for name in FILES), *_see(*others)]


def _see(*others):
    return [*rst.heading('See also', '-'), ', '.join(f':doc:`{name}`' for name in others)]


def _daemon(name, about, text):
    return [*_head(name, about, [f'{name} [options]'], text),
            *rst.heading('Options', '-'), *_definitions(GENERAL), *rst.heading('Signals', '-'), *_definitions(SIGNALS),
            *rst.heading('Exit status', '-'), *_definitions(DAEMON_CODES), *_tail('nova-manage')]


def _policy():
    return [*_head('nova-policy', OTHERS['nova-policy'], ['nova-policy --help'],
                   'Prints and checks the rules of policy.yaml; see :doc:`/admin/policy`.'),
            *rst.heading('Exit status', '-'), *_definitions(POLICY_CODES), *_tail('nova-api')]


def _status():
    return [*_head('nova-status', OTHERS['nova-status'], ['nova-status upgrade check'],
                   'Checks databases and services before an upgrade of the services; see :doc:`/admin/upgrades`.'),
            *rst.heading('Exit status', '-'),
            *_definitions(STATUS_CODES),
            *_tail('nova-manage')]


def _wsgi():
    return [*_head('nova-api-wsgi', OTHERS['nova-api-wsgi'], ['uwsgi --wsgi-file nova-api-wsgi …'],
                   'A file with the compute API as the WSGI callable ``application``; see :doc:`/admin/daemons`.'),
            *_tail('nova-api')]


def _dhcpbridge():
    rows = (('add, old, del', 'The event: a lease began, exists or changed, ended. Other events are ignored.'),
            ('CLIENT', 'The MAC address, or the DUID for IPv6.'), ('ADDRESS', 'The leased address.'),
            ('NAME', 'The host name of the guest. It is not used.'))
    variables = ((dhcpbridge.DIRECTORY, 'The directory of the lease files. nova-network sets it.'),
                 ('DNSMASQ_LEASE_EXPIRES, DNSMASQ_LEASE_LENGTH', 'The end or the length of the lease.'),
                 ('DNSMASQ_MAC', 'The MAC address, for IPv6.'))
    return [*_head('nova-dhcpbridge', OTHERS['nova-dhcpbridge'],
                   ['nova-dhcpbridge {add|old|del} CLIENT ADDRESS [NAME]'],
                   'dnsmasq calls this program, as its dhcp-script, when a lease begins, changes or ends. It '
                   'writes one file for each lease, which nova-network reads. It is not a daemon. Its only option is '
                   '--help.'),
            *rst.heading('Arguments', '-'), *_definitions(rows), *rst.heading('Environment', '-'),
            *_definitions(variables), *rst.heading('Exit status', '-'),
            *_definitions((('0', 'The file is written, or the event is ignored.'),
                           ('2', 'The directory is not set, or an argument is malformed.'))),
            *_see('nova-network')]


def _rootwrap():
    return [*_head('nova-rootwrap', OTHERS['nova-rootwrap'], ['sudo nova-rootwrap CONFIG COMMAND [WORD ...]'],
                   'Older deployments allow this program in sudoers. It runs no command. It maps a command to a step '
                   'of the privileged part of nova-compute, which checks the arguments. nova-compute does not use '
                   'this program; see :doc:`/admin/privileges`.'),
            *rst.heading('Arguments', '-'), *_definitions((
                ('CONFIG', 'A file whose filters_path names the directories of filters. Files and directories must not '
                           'be writable by other users.'),
                ('COMMAND', f'A command that a filter allows: NAME: {rootwrap.KIND}, COMMAND, root.'))),
            *rst.heading('Exit status', '-'), *_definitions(ROOTWRAP_CODES),
            *_see('nova-compute')]


def _virtiofsd():
    return [*_head('nova-virtiofsd', OTHERS['nova-virtiofsd'],
                   ['nova-virtiofsd [ARGUMENTS OF VIRTIOFSD]', 'nova-virtiofsd --print-capabilities'],
                   'libvirt starts this program for each share of a guest. It mounts the share in a private mount '
                   'namespace and executes virtiofsd with the same arguments. The mount ends with the guest, and other '
                   'processes of the host do not see it. nova-compute writes the parameters of the mount to a file '
                   'next to the directory that the arguments name. Administrators do not call this program.'),
            *rst.heading('Exit status', '-'),
            *_definitions((*VIRTIOFSD_CODES, ('other', 'That of virtiofsd.'))),
            *_see('nova-compute')]


def _manage():
    lines = [*_head('nova-manage', OTHERS['nova-manage'], ['nova-manage [options] <category> <command> [<args>]',
                                                           'nova-manage', 'nova-manage <category>'],
                    'Manages schemas, cells, deleted rows, images and services without the API. Without arguments it '
                    'lists the categories; with a category it lists the commands. Options of nova.conf stand before '
                    'the category or behind the command.', '', 'A command that fails prints the reason on standard '
                    'error and exits with 1, or with the code that its description names. A wrong command line exits '
                    'with 2. Commands of cell_v2 print the text of a code on standard output.', '',
                    'Every command that does not use the terminal itself has --format table, json or value. Programs '
                    'read json, one document, or value, rows with a tab between values. With these formats, standard '
                    'output has the rows and standard error the sentences. A command without rows prints '
                    '{"output": [lines]} as json.'),
             *rst.heading('Options', '-'), *_definitions(GENERAL)]
    for category, actions in manage.COMMANDS.items():
        lines += rst.heading(category, '-')
        for action, function in ({'': actions} if callable(actions) else actions).items():
            lines += _command(f'{category} {action}'.strip(), function)
    return [*lines, *_tail('nova-status', 'nova-api')]


def _command(name, function):
    options = manage.OPTIONS.get(function, {})
    words = ' '.join(_usage(option, given) for option, given in options.items())
    lines = [f'``nova-manage {name}{" " + words if words else ""}``', '',
             f'    {rst.escaped(" ".join((function.__doc__ or "").split()))}', '']
    for option, given in options.items():
        lines += [f'    ``{option}``', f'        {rst.escaped(_sentence(given))}', '']
    codes = manage.EXIT_CODES.get(function)
    if codes:
        lines += ['    Exit codes:', '', *(f'    * {code}: {rst.escaped(text)}' for code, text in codes.items()), '']
    return lines


def _usage(option, given):
    word = given.get('metavar') or option.lstrip('-').upper()
    if not option.startswith('-'):
        return f'[{word}]' if given.get('nargs') == '?' else word
    value = '' if str(given.get('action', '')).startswith(('store_', 'count')) else f' {word}'
    return f'{option}{value}' if given.get('required') else f'[{option}{value}]'


def _sentence(given):
    text = ' '.join(((given.get('help') or 'as its name says') % given).split())          # as argparse prints it
    return text[0].upper() + text[1:] + ('' if text.endswith('.') else '.')
