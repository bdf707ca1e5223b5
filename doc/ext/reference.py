"""A Sphinx extension that writes doc/source/reference from the tables of the code, before the sources are read."""
import reference_api
import reference_ec2
import reference_guest_options
import reference_metrics
import reference_notifications
import reference_placement
import reference_queues
import reference_rpc
import reference_services
import reference_states
import reference_support
import rst
from oslo_config import cfg

from nova import conf as nova_conf
from nova.conf.clients import keystoneauth

INDEX = """
Reference
=========

Made at every build from the rows of the code: what stands here is what the service does.

.. toctree::
   :maxdepth: 1

   api
   microversions
   states
   support-matrix
   block-storage-api
   key-manager-api
   identity-api
   image-api
   network-api
   policies
   placement
   guest-options
   ec2-refused
   metrics
   queues
   notifications
   rpc
   options
"""


def setup(app):
    app.connect('builder-inited', write)
    return {'parallel_read_safe': True}


def write(app):
    pages = {**reference_api.pages(), **reference_services.pages(), 'states': reference_states.page(),
             'support-matrix': reference_support.page(),
             'placement': reference_placement.page(), 'guest-options': reference_guest_options.page(),
             'ec2-refused': reference_ec2.page(), 'metrics': reference_metrics.page(),
             'notifications': reference_notifications.page(), 'queues': reference_queues.page(),
             'rpc': reference_rpc.page(), 'options': options(), 'index': [INDEX]}
    for old in rst.write(app, 'reference', pages).glob('*.rst'):
        if old.stem not in pages:
            old.unlink()


def options():
    lines = [*rst.heading('Options'), 'Of ``nova.conf``. ``nova-manage config sample`` prints them with those of the '
             'libraries.']
    for module in sorted(nova_conf.modules(), key=lambda module: module.GROUP or ''):
        lines += [*rst.heading(f'[{module.GROUP or "DEFAULT"}]', '-'), *rst.table(
            ('Option', 'Type', 'Default', 'Meaning'),
            [(rst.literal(option.dest), _type(option), rst.literal(_default(option)), rst.escaped(option.help or ''))
             for option in (*keystoneauth.described(module.OPTIONS), *getattr(module, 'CLI_OPTIONS', ()))],
            '22 18 16 44')]
    return lines


def _default(option):
    value = option.sample_default if option.sample_default is not None else option.default
    if isinstance(value, (list, tuple)):
        return ', '.join(map(str, value))
    return '' if value is None or option.secret else value


def _type(option):
    kind = option.type
    words = type(option).__name__.removesuffix('Opt').lower()
    bounds = [f'{text} {bound}' for text, bound in (('at least', getattr(kind, 'min', None)),
                                                    ('at most', getattr(kind, 'max', None))) if bound is not None]
    choices = getattr(kind, 'choices', None)
    if choices and not isinstance(option, cfg.BoolOpt):
        bounds.append('one of ' + ', '.join(rst.literal(choice or '""') for choice in choices))
    return '; '.join([{'str': 'string', 'int': 'integer', 'bool': 'boolean', 'multistr': 'string, many times'}.get(
        words, words), *bounds])
