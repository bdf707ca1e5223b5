"""A Sphinx extension that writes doc/source/cli, a man page for every command, before the sources are read.

That of nova-manage is made of the rows of its commands.
"""
import rst

from nova.cmd.manage import main as manage

# command: (what it is, description)
DAEMONS = {
    'nova-all': ('a whole cloud in one process',
                 'Serves identity, images, networks, volumes and the compute API, and runs guests, with nothing else '
                 'installed but libvirt; with compute_driver fake not even that. --help has its own options.'),
    'nova-api': ('the compute API', 'Serves the compute API over HTTP. Any number of them may run, behind a load '
                                    'balancer.'),
    'nova-api-os-compute': ('the compute API', 'Another name of nova-api, which serves nothing but the compute API.'),
    'nova-api-ec2': ('the EC2 API', 'Serves the EC2 API over HTTP as a client of the services, as the user who has '
                                    'signed a request. [ec2] has the account that may ask the Identity service about '
                                    'signatures. Any number of them may run.'),
    'nova-api-metadata': ('the metadata service for proxies',
                          'Describes guests to themselves when a proxy asks for them, which names the guest in headers '
                          'and proves it with [metadata] shared_secret. Guests on a bridge of nova-network are served '
                          'by nova-network.'),
    'nova-novncproxy': ('screens of servers in a browser',
                        'Serves noVNC, and leads its connections to the VNC of the guests. Any number may run.'),
    'nova-spicehtml5proxy': ('screens of servers in a browser, over SPICE',
                             'Serves spice-html5, and leads its connections to the SPICE of the guests. Any number may '
                             'run.'),
    'nova-serialproxy': ('serial ports of servers over WebSockets',
                         'Serves a terminal for browsers, and leads WebSockets to the serial ports of the guests. Any '
                         'number may run.'),
    'nova-xvpvncproxy': ('the sentence for old viewers', 'Says in a sentence that Java viewers are not served.'),
    'nova-console': ('a name of old deployments', 'Has nothing to do, and says what does its work.'),
    'nova-consoleauth': ('a name of old deployments', 'Has nothing to do, and says where the tokens are.'),
    'nova-conductor': ('builds servers, and writes for computes',
                       'Builds, moves and repairs servers, and writes to the database for services that have no '
                       'credentials for it. Any number of them may run.'),
    'nova-scheduler': ('chooses hosts', 'Chooses the hosts of servers. Any number of them may run.'),
    'nova-cert': ('a certificate authority for users',
                  'Issues certificates for users of projects, makes revocation lists, and decrypts what was encrypted '
                  'for its authority, as the keys of bundled images are. The compute API asks it for os-certificates '
                  'where [api] nova_network_resources is on. One of them runs for a deployment, on the host with the '
                  'directory of its keys; nova-manage cert works on that directory.'),
    'nova-objectstore': ('objects in buckets for S3 clients',
                         'Keeps objects of projects in files of its host and serves them over the protocol of S3, '
                         'with signatures by the credentials of EC2. One of them runs for a deployment. It asks the '
                         'Identity service with the account of [ec2], as nova-api-ec2 does, and needs no broker and no '
                         'database.'),
    'nova-network': ('addresses, bridges, DHCP and filters',
                     'Gives servers their addresses, and makes the bridges, DHCP servers and filters of its host.'),
    'nova-volume': ('the embedded block storage of a fleet',
                    'Keeps volumes in files of its host, serves the Block Storage API v3 for them, and exports them to '
                    'the hosts of their servers over NBD with TLS. One of them runs for a deployment. The exports '
                    'outlive it.'),
    'nova-compute': ('the guests of a host',
                     'Runs the guests of one host. It needs a broker and the Image service, and no database. Guests '
                     'outlive it.'),
}
OTHERS = {
    'nova-manage': 'commands for administrators',
    'nova-policy': 'who may do what',
    'nova-status': 'whether an upgrade may begin',
    'nova-api-wsgi': 'the compute API for WSGI servers',
}
SIGNALS = (('SIGTERM, SIGINT', 'Take nothing new, finish what runs for at most graceful_shutdown_timeout seconds, end. '
                               'A second one ends it at once.'),
           ('SIGHUP', 'Read the configuration again; options that cannot change while it runs keep their values.'),
           ('SIGUSR1', 'Write a Guru Meditation Report to standard error, or to a file in [oslo_reports] log_dir: '
                       'package, threads and green threads with their stacks, processes, health, what the services do, '
                       'and the configuration with secrets masked.'))
GENERAL = (('--config-file PATH', 'A configuration file; may be given several times, the last one wins. '
                                  '/etc/nova/nova.conf unless given.'),
           ('--config-dir DIRECTORY', 'A directory whose *.conf are read after it, in order.'),
           ('--debug, --log-file PATH, --log-dir DIRECTORY', 'How much is logged, and where; standard error unless '
                                                             'given.'),
           ('--state-path DIRECTORY', 'Where it keeps what is its own.'),
           ('--help', 'What there is, and end.'))
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
    found |= {'nova-manage': _manage(), 'nova-policy': _policy(), 'nova-status': _status(), 'nova-api-wsgi': _wsgi()}
    return {**found, 'index': [*rst.heading('Commands'), '.. toctree::', '   :maxdepth: 1', '',
                               *(f'   {name}' for name in found)]}


def _head(name, about, synopsis, *text):
    return [*rst.heading(name)[1:], about[0].upper() + about[1:] + '.', *rst.heading('Synopsis', '-'), '::', '',
            *(f'    {line}' for line in synopsis), *rst.heading('Description', '-'), *text]


def _definitions(rows):
    return [line for term, text in rows for line in (f'``{term}``', f'    {rst.escaped(text) or "As usual."}', '')]


def _tail(*others):
    return [*rst.heading('Files', '-'), *(f'* ``{name}``' for name in FILES), *rst.heading('See also', '-'),
            ', '.join(f':doc:`{name}`' for name in others)]


def _daemon(name, about, text):
    return [*_head(name, about, [f'{name} [options]'], text),
            *rst.heading('Options', '-'), *_definitions(GENERAL), *rst.heading('Signals', '-'), *_definitions(SIGNALS),
            *rst.heading('Exit status', '-'),
            '0 after an orderly end, 1 when it cannot run, which it says in a sentence, 2 for a wrong command line or '
            'configuration file.', *_tail('nova-manage')]


def _policy():
    return [*_head('nova-policy', OTHERS['nova-policy'], ['nova-policy --help'],
                   'Shows and checks the rules of policy.yaml; see :doc:`/admin/policy`.'), *_tail('nova-api')]


def _status():
    return [*_head('nova-status', OTHERS['nova-status'], ['nova-status upgrade check'],
                   'Looks at the databases and services and says whether the services may be upgraded.'),
            *rst.heading('Exit status', '-'),
            *_definitions((('0', 'Nothing is in the way.'), ('1', 'Something should be looked at first.'),
                           ('2', 'Something is in the way.'), ('255', 'It could not be found out.'))),
            *_tail('nova-manage')]


def _wsgi():
    return [*_head('nova-api-wsgi', OTHERS['nova-api-wsgi'], ['uwsgi --wsgi-file nova-api-wsgi …'],
                   'A file whose ``application`` is the compute API as a WSGI callable; see :doc:`/admin/daemons`.'),
            *_tail('nova-api')]


def _manage():
    lines = [*_head('nova-manage', OTHERS['nova-manage'], ['nova-manage [options] <category> <command> [<args>]',
                                                           'nova-manage', 'nova-manage <category>'],
                    'Looks after schemas, cells, deleted rows, images and services, past the API. Without arguments it '
                    'lists the categories, with a category alone its commands. Options of nova.conf stand before the '
                    'category or behind the command.', '', 'A command that fails says why in one sentence on standard '
                    'error and exits with 1 unless another code stands with it; a wrong command line is 2. Those of '
                    'cell_v2 say what stands with a code on standard output.'),
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
        lines += [f'    ``{option}``', f'        {rst.escaped(_sentence(given.get("help")))}', '']
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


def _sentence(text):
    text = ' '.join((text or 'as its name says').split())
    return text[0].upper() + text[1:] + ('' if text.endswith('.') else '.')
