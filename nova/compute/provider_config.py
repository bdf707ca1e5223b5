"""Traits that an operator gives to a host, in YAML files.

The form is that of https://docs.openstack.org/nova/latest/admin/managing-resource-providers.html, of which traits are
known: capacities are options here. ::

    meta:
      schema_version: '1.0'
    providers:
      - identification:
          name: host1              # or uuid: $COMPUTE_NODE, the node that reads it
        traits:
          additional:
            - CUSTOM_FAST_SSD
"""
import pathlib

import yaml

from nova import exception
from nova.virt import traits

THIS = '$COMPUTE_NODE'


def load(directory):
    """{node name, or THIS: frozenset of traits} of the files in a directory; {} when it is not there.

    :raises InvalidOption: a file has another form; the text names it
    """
    found = {}
    folder = pathlib.Path(directory)
    for path in sorted([*folder.glob('*.yaml'), *folder.glob('*.yml')]) if directory else ():
        try:
            content = yaml.safe_load(path.read_text())
            if str(content['meta']['schema_version']) != '1.0':
                raise ValueError("meta: schema_version is not '1.0'")
            for provider in content.get('providers') or ():
                name, names = _provider(provider)
                found[name] = found.get(name, frozenset()) | names
        except (OSError, yaml.YAMLError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise exception.InvalidOption(
                f'[compute] provider_config_location: {path}: {type(error).__name__}: {error}') from error
    return found


def _provider(provider):
    unknown = provider.keys() - {'identification', 'traits'}
    if unknown:
        raise ValueError(f'{", ".join(sorted(unknown))} of a provider cannot be set here')
    who = provider['identification']
    if set(who) not in ({'name'}, {'uuid'}) or who.get('uuid', THIS) != THIS:
        raise ValueError(f'identification is name, or uuid: {THIS}')
    names = (provider.get('traits') or {}).get('additional') or []
    for name in names:
        if not isinstance(name, str) or not traits.NAME.fullmatch(name):
            raise ValueError(f'{name!r} is no name of a trait: capital letters, digits and _')
    return who.get('name') or THIS, frozenset(names)
