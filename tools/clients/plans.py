"""Configurations of Terraform and the plans that its providers make of them, for each provider of this directory."""
import collections
import json
import shutil
import subprocess
import typing

import suites

SETTINGS = 'provider_installation {{\n  filesystem_mirror {{\n    path = "{}"\n  }}\n}}\n'
COMMAND_S = 900
# phase: what the plan must do with a resource that has a change in this step
STEPS = {'change in place': ('changed', ['update']), 'replace': ('replaced', None)}


class Provider(typing.NamedTuple):
    """Limits of a provider, whatever the cloud answers.

    :ivar imported_by: {type: template of the ID for an import, with attributes}; default: the attribute id
    :ivar not_imported: types that the provider cannot import
    :ivar not_read: {type or address: attributes that the provider does not read at an import}
    """

    imported_by: dict[str, str]
    not_imported: tuple[str, ...]
    not_read: dict[str, tuple[str, ...]]


class Stack:
    """A directory with one configuration and its state.

    :param files: paths of the configuration
    :param provider: Provider
    :param variables: values of variables; those that the configuration does not declare are left out
    :ivar results: {test: suites.Result}
    """

    def __init__(self, name, directory, files, provider, environ, variables):
        self.name, self.directory, self.provider, self.environ = name, directory, provider, environ
        self.results = {}
        directory.mkdir(parents=True)
        for file in files:
            shutil.copy(file, directory)
        self._text = text = '\n'.join(file.read_text() for file in files)
        (directory / 'terraform.tfvars.json').write_text(json.dumps(
            {key: value for key, value in variables.items() if f'variable "{key}"' in text}))
        self.run('init', '-no-color', check=True)

    def run(self, *words, check=False):
        """(exit code, output) of a command."""
        done = subprocess.run(['terraform', *words], cwd=self.directory, env=self.environ, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=COMMAND_S)
        with open(self.directory / 'log', 'a') as log:
            log.write(f'==== terraform {" ".join(words)}\n{done.stdout}\n')
        if check and done.returncode:
            raise RuntimeError(f'terraform {words[0]}:\n{done.stdout[-3000:]}')
        return done.returncode, done.stdout

    def errors(self, *words):
        """{address: message} of a command that prints a line of JSON for each event."""
        _code, printed = self.run(*words, '-json')
        found = collections.defaultdict(list)
        for line in printed.splitlines():
            event = json.loads(line) if line.startswith('{') else {}
            told = event.get('diagnostic', {})
            if told.get('severity') == 'error':
                found[told.get('address', '')].append(' '.join(f'{told["summary"]} {told.get("detail", "")}'.split()))
        return {address: ' '.join(texts) for address, texts in found.items()}

    def plan(self, step):
        """{address: change} of a plan, and {address: message} of what failed."""
        errors = self.errors('plan', '-input=false', '-var', f'step={step}', '-out=plan')
        if errors:
            return {}, errors
        _code, printed = self.run('show', '-json', 'plan', check=True)
        return {change['address']: change['change'] | {'importing': change['change'].get('importing')}
                for change in json.loads(printed[printed.index('{'):]).get('resource_changes', ())
                if change['mode'] == 'managed'}, {}

    def apply(self, step):
        return self.errors('apply', '-input=false', '-auto-approve', '-var', f'step={step}')

    def resources(self):
        """{address: values} of the state, data sources included."""
        _code, printed = self.run('show', '-json', check=True)
        values = json.loads(printed[printed.index('{'):]).get('values', {})
        return {each['address']: each for each in values.get('root_module', {}).get('resources', ())}

    def declared(self):
        """Addresses of resources and data sources in the configuration."""
        found = set()
        for line in self._text.splitlines():
            if line.startswith(('resource "', 'data "')):
                kind, first, second = line.replace('"', '').split()[:3]
                found.add(f'{"data." if kind == "data" else ""}{first}.{second}')
        return found

    def record(self, address, phase, text=None, outcome=None):
        self.results[f'{self.name}.{address} {phase}'] = suites.Result(
            outcome or ('passed' if text is None else 'failed'), text or '')


def walk(stack):
    """Take a configuration through its life."""
    errors = stack.apply('first')
    present = stack.resources()
    for address in stack.declared():
        missing = None if address in present else 'A resource on which it depends failed.'
        stack.record(address, 'apply', errors.get(address, missing))
    settled(stack, 'first', 'second plan')
    for phase, (step, wanted) in STEPS.items():
        _change(stack, phase, step, wanted)
    _import(stack)
    errors = stack.errors('destroy', '-auto-approve', '-var', 'step=replaced')
    remaining = stack.resources()
    for address in present:
        if not address.startswith('data.'):
            left = 'It is still in the state.' if address in remaining else None
            stack.record(address, 'destroy', errors.get(address, left))


def settled(stack, step, phase, only=None):
    """Record whether a plan of what was just applied has no difference."""
    changes, errors = stack.plan(step)
    for address in stack.resources():
        if not address.startswith('data.') and (only is None or address in only):
            change = changes.get(address)
            text = errors.get(address)
            if change and change['actions'] not in (['no-op'], ['read']):
                text = f'{"/".join(change["actions"])}: {difference(change)}'
            elif text is None and errors and not changes:
                text = f'The plan failed: {next(iter(errors.values()))}'
            stack.record(address, phase, text)


def _change(stack, phase, step, wanted):
    """Apply a step; record the resources that it changes as wanted."""
    changes, errors = stack.plan(step)
    meant = {address for address, change in changes.items()
             if (change['actions'] == wanted if wanted else {'create', 'delete'} <= set(change['actions']))}
    present = stack.resources()
    errors |= stack.apply(step)
    remaining = stack.resources()
    for address in meant & present.keys():
        missing = None if address in remaining else 'It is not in the state.'
        stack.record(address, phase, errors.get(address, missing))
    settled(stack, step, f'plan after {phase}', meant - errors.keys())


def _import(stack):
    """Import everything into an empty state, and compare: nothing may be different."""
    resources = {address: each for address, each in stack.resources().items() if not address.startswith('data.')}
    for address in [address for address, each in resources.items() if each['type'] in stack.provider.not_imported]:
        del resources[address]
        stack.record(address, 'import', 'The provider does not import this resource.', 'skipped')
    blocks = [f'import {{\n  to = {address}\n  id = {json.dumps(imported_id(stack.provider, each))}\n}}\n'
              for address, each in resources.items()]
    state, aside = stack.directory / 'terraform.tfstate', stack.directory / 'state.aside'
    state.rename(aside)
    block_file, override = stack.directory / 'imports.tf', stack.directory / 'not_read_override.tf'
    override.write_text(''.join(ignoring(stack.provider, address, each['type'])
                               for address, each in resources.items()))
    # one plan for each resource that fails: a plan ends with the first unreadable one
    block_file.write_text(''.join(blocks))
    changes, errors = stack.plan('replaced')
    failed = {}
    while errors and len(failed) < len(resources):
        found = [address for address in resources if any(
            address in (told, told.partition('[')[0]) or f'"{address}"' in text for told, text in errors.items())]
        if not [address for address in found if address not in failed]:
            failed.update(dict.fromkeys(resources.keys() - failed.keys(), next(iter(errors.values()))))
            break
        failed.update({address: next((text for told, text in errors.items() if told == address or address in text), '')
                       for address in found})
        block_file.write_text(''.join(block for address, block in zip(resources, blocks) if address not in failed))
        changes, errors = stack.plan('replaced')
    for address in resources:
        change = changes.get(address)
        text = failed.get(address)
        if text is None and change and change['actions'] != ['no-op']:
            text = f'{"/".join(change["actions"])}: {difference(change)}'
        stack.record(address, 'import', text)
    block_file.unlink()
    override.unlink()
    state.unlink(missing_ok=True)
    aside.rename(state)


def imported_id(provider, resource):
    """The ID under which the provider imports a resource."""
    return provider.imported_by.get(resource['type'], '{id}').format(**resource['values'])


def ignoring(provider, address, kind):
    """A block that leaves out of a plan what the provider does not read at an import."""
    names = [*provider.not_read.get(kind, ()), *provider.not_read.get(address, ())]
    return (f'resource "{kind}" "{address.partition(".")[2]}" {{\n  lifecycle {{\n'
            f'    ignore_changes = [{", ".join(names)}]\n  }}\n}}\n') if names else ''


def difference(change):
    """The attributes that differ, with both values."""
    before, after = change.get('before') or {}, change.get('after') or {}
    names = [name for name in after if before.get(name) != after[name]]
    names += [name for name in change.get('after_unknown', {}) if name not in after and name != 'id']
    return ', '.join(f'{name} {json.dumps(before.get(name))} -> {json.dumps(after.get(name))}'
                     for name in names)[:400]
