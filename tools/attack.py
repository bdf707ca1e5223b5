#!/usr/bin/env python3
"""Attack a cloud and say where it broke.

    tools/attack.py [--cloud NAME] [--only REGEX] [--list]

NAME is an administrator's entry of clouds.yaml (OS_CLOUD unless given); with it projects with a user each
are made, and removed at the end. One of them has servers, images, volumes and networks; the others attack. Attack
clouds of your own alone: some thousand hostile requests are sent. The exit code is 1 when the cloud broke under an
attack, 2 when none could be sent.
"""
import argparse
import os
import pathlib
import re
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from nova.runtime import concurrency

concurrency.setup()

import requests
import yaml

from nova.tests.attacks import stage as stages
from nova.tests.attacks import suite

PLACES = ('clouds.yaml', '~/.config/openstack/clouds.yaml', '/etc/openstack/clouds.yaml')
SHOW_S = 5                    # between two lines of progress


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0], allow_abbrev=False)
    parser.add_argument('--cloud', default=os.environ.get('OS_CLOUD'), help="an administrator's entry of clouds.yaml")
    parser.add_argument('--only', metavar='REGEX', default='', help='attacks whose "family: name" matches')
    parser.add_argument('--list', action='store_true', help='say what would be sent')
    given = parser.parse_args()
    try:
        entry = _entry(given.cloud)
        auth = entry['auth']
        login = stages.by_password(auth['username'], auth['password'], auth['project_name'])
        with stages.built(auth['auth_url'], login, entry.get('cacert', True)) as stage:
            return _attack(stage, re.compile(given.only), given.list)
    except (OSError, KeyError, RuntimeError, requests.RequestException) as error:
        print(f'attack.py: {error}', file=sys.stderr)
        return 2


def _entry(name):
    """The entry of a cloud in clouds.yaml."""
    places = [os.environ['OS_CLIENT_CONFIG_FILE']] if 'OS_CLIENT_CONFIG_FILE' in os.environ else PLACES
    for place in map(os.path.expanduser, places):
        if os.path.exists(place):
            with open(place, encoding='utf-8') as file:
                clouds = yaml.safe_load(file)['clouds']
            if name in clouds:
                return clouds[name]
            raise RuntimeError(f'{place} has no cloud {name}: give one of {", ".join(clouds)} with --cloud.')
    raise RuntimeError(f'there is no clouds.yaml in {", ".join(places)}.')


def _attack(stage, only, listed) -> int:
    results, shown = [], time.monotonic()

    def chosen(attack):
        return only.search(f'{attack.family}: {attack.name}')
    if listed:
        names = [f'{attack.family}: {attack.name}' for attack in suite.attacks(stage) if chosen(attack)]
        print(*names, f'{len(names)} attacks', sep='\n')
        return 0
    for result in suite.run(stage, chosen):
        results.append(result)
        if result.broke:
            print(f'BROKE  {result.attack.family}: {result.attack.name}: {result.broke}', flush=True)
        if time.monotonic() - shown > SHOW_S:
            shown = time.monotonic()
            print(f'       {len(results)} sent', flush=True)
    counted = suite.counted(results)
    print(f'\n{"family":20} {"held":>6} {"broke":>6}')
    for family, (held, broken) in counted.items():
        print(f'{family:20} {held:6} {broken:6}')
    held, broken = (sum(pair[index] for pair in counted.values()) for index in (0, 1))
    print(f'{"all":20} {held:6} {broken:6}')
    return int(broken > 0)


if __name__ == '__main__':
    sys.exit(main())
