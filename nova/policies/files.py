"""Policy files: the rules of policy.yaml and policy.d.

The main file is read first, then the files of each directory in alphabetical order; the last value of a rule wins. A
file may also name an extension: ``os_compute_api:os-services`` applies to all rules of os-services that no file sets,
except rules in ``policies.EXTRAS``. A legacy rule name (``policies.legacy_names``) applies if no file sets the current
name. Other rules keep their defaults.

Extensions, legacy names and directories exist for the compute API only. The other APIs have one file each.
"""
from __future__ import annotations

from collections.abc import Iterator, Mapping
import dataclasses
import functools
import os
import re
from typing import TYPE_CHECKING

import yaml
from oslo_config import cfg
from oslo_policy import policy as oslo_policy

from nova import exception
from nova import policies
from nova.policies import checks
from nova.policies import legacy_names
from nova.policies.paths import paths
from nova.policies.service import Service

if TYPE_CHECKING:
    from nova.runtime.hooks.oslo_policy import BaseCheck

DEFAULT = 'default'
Text = str | list[str | list[str]]          # a check in a file; lists are an older syntax
_ATTRIBUTE = re.compile(r'%\(([^)]+)\)')                # attribute of the resource in a check
_REMOTE = ('http', 'https')                             # checks that send all attributes of the resource to a server
_NEVER = re.compile(r'(?<![^\s(])!(?![^\s)])')         # the check ``!``, which always fails


@dataclasses.dataclass(frozen=True)
class Rule:
    """One effective rule.

    :ivar text: the check as written
    :ivar check: the parsed check
    :ivar source: path of the file that defines it, or DEFAULT
    :ivar by: name of the extension or legacy rule that sets it, or None
    """

    text: str
    check: BaseCheck
    source: str
    by: str | None = None


def signature(conf: cfg.ConfigOpts | None, service: Service = policies.COMPUTE) -> list[tuple[str, int, int, int]]:
    """Return a value that changes when one of the files is changed, added or removed."""
    found = []
    for path in paths(conf, service):
        try:
            stat = os.stat(path)
        except OSError:                  # ``rules`` refuses an unreadable file
            continue
        found.append((path, stat.st_mtime_ns, stat.st_size, stat.st_ino))
    return found


def rules(conf: cfg.ConfigOpts | None, added: dict[str, str] | None = None,
          service: Service = policies.COMPUTE) -> dict[str, Rule]:
    """Return {name: Rule} of all effective rules, including rules that only the files define.

    :param added: {name: default} of rules of plugins
    :raises InvalidInput: a file is invalid
    """
    written = {}
    for path in paths(conf, service):
        for name, text in _read(path).items():
            written[name] = Rule(_words(text), _parse(path, name, text), path)
    if not written and not added:
        return dict(_defaults(service.name))     # a test checks the references between the defaults
    if service.extensions:
        known = service.defaults | (added or {})
        found = {**written, **{name: _in_force(name, text, written, known) for name, text in known.items()}}
    else:
        found = {**_defaults(service.name), **written}
        _add_referred(found, service.absent)
    _check_references(found)
    return found


@functools.cache
def _defaults(api: str) -> Mapping[str, Rule]:
    """Return {name: Rule} of an API without policy files."""
    service = policies.named(api)
    found = {name: Rule(text, _check(text), DEFAULT) for name, text in service.defaults.items()}
    if not service.extensions:
        _add_referred(found, service.absent)
    return found


def _add_referred(found: dict[str, Rule], known: Mapping[str, str]) -> None:
    """Add the defaults of rules that the API does not check, if rules of a file refer to them."""
    waiting = list(found)
    for name in waiting:
        for other in references(found[name].check):
            if other not in found and other in known:
                found[other] = Rule(known[other], _check(known[other]), DEFAULT)
                waiting.append(other)


def _in_force(name: str, text: str, written: dict[str, Rule], known: Mapping[str, str]) -> Rule:
    if name in written:
        return written[name]
    extension = _extension(name, known)
    while extension:
        if extension in written:
            return dataclasses.replace(written[extension], by=extension)
        extension = _extension(extension, known)
    former_texts = {each: rule.text for each, rule in written.items() if each in legacy_names.NAMES}
    older = legacy_names.text(name, known, former_texts, policies.EXTRAS) if former_texts else None
    if older:
        return Rule(older[0], _check(older[0]), written[older[1]].source, older[1])
    return Rule(text, _check(text), DEFAULT)


@functools.cache
def _check(text: str) -> BaseCheck:
    """Parse a default check. The result is cached, because many rules have the same check."""
    return oslo_policy.RuleDefault(DEFAULT, text).check


def _extension(name: str, known: Mapping[str, str]) -> str | None:
    """Return the rule of the extension (the name without its last part), or None for rules without an extension."""
    above = name.rpartition(':')[0]
    return above if ':' in above and above not in known and name not in policies.EXTRAS else None


def has_effect(name: str) -> bool:
    """Return whether the compute API has a rule or an extension of this name."""
    known = policies.COMPUTE.defaults
    return name in known or any(rule.startswith(name + ':') for rule in known)


def _read(path: str) -> dict[str, Text]:
    try:
        with open(path, encoding='utf-8') as file:
            document = yaml.safe_load(file)
    except yaml.YAMLError as error:
        mark = getattr(error, 'problem_mark', None)
        place = f', line {mark.line + 1}' if mark else ''
        raise exception.InvalidInput(
            f'The policy file {path}{place} is not YAML: {getattr(error, "problem", None) or error}.') from None
    except (OSError, ValueError, RecursionError) as error:     # e.g. an impossible date, or too deep nesting
        raise exception.InvalidInput(f'Cannot read the policy file {path}: {error}.') from None
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise exception.InvalidInput(f'The policy file {path} is not a mapping: write "name": "check" lines.')
    for name, text in document.items():
        if not isinstance(name, str) or not isinstance(text, (str, list)):
            raise exception.InvalidInput(f'The policy file {path} has {name!r}: {text!r}, which is not a rule: both '
                                         'must be strings in quotation marks.')
    return document


def _parse(path: str, name: str, text: Text) -> BaseCheck:
    try:
        check = oslo_policy.RuleDefault(name, text).check      # type: ignore[arg-type]  # the class accepts lists, too
    except ValueError as error:
        raise exception.InvalidInput(f'The policy file {path} has an invalid check: "{name}": "{text}". {error}'
                                     ) from None
    refused = sum(str(part) == '!' for part in parts(check))
    if refused != len(_NEVER.findall(text if isinstance(text, str) else _flat(text))):
        raise exception.InvalidInput(f'The policy file {path} has an invalid check: '
                                     f'"{name}": "{text}".')
    return check


def _words(text: Text) -> str:
    """Return a check as text; a list of lists, the older syntax, becomes "(a and b) or (c)"."""
    if isinstance(text, str):
        return text
    if not text:
        return ''
    lists = [f'({" and ".join(each)})' if isinstance(each, list) else each for each in text if each]
    return ' or '.join(lists) or '!'


def _flat(old: list[str | list[str]]) -> str:
    """Return the checks of a list of lists in one line."""
    return ' '.join(' '.join(map(str, each)) if isinstance(each, list) else str(each) for each in old)


def parts(check: BaseCheck) -> Iterator[BaseCheck]:
    """Yield a check and the checks that it combines, but not the rules that it refers to."""
    yield check
    if isinstance(check, (oslo_policy.AndCheck, oslo_policy.OrCheck)):
        for inner in check.rules:
            yield from parts(inner)
    elif isinstance(check, oslo_policy.NotCheck):
        yield from parts(check.rule)


def references(check: BaseCheck) -> list[str]:
    """Return the names of the rules that a check refers to."""
    return [part.match for part in parts(check) if isinstance(part, oslo_policy.RuleCheck)]


def compared(check: BaseCheck) -> Iterator[str]:
    """Yield the names of the attributes that a check compares, without attributes of the rules that it refers to."""
    for part in parts(check):
        if isinstance(part, checks.FieldCheck):
            yield part.name
        elif isinstance(part, oslo_policy.Check) and not isinstance(part, oslo_policy.RuleCheck):
            yield from ('project_id', 'user_id') if part.kind in _REMOTE else _ATTRIBUTE.findall(part.match)


def _check_references(found: dict[str, Rule]) -> None:
    """Check that references between rules are valid.

    :raises InvalidInput: a rule refers to itself or to a missing rule
    """
    good = set()

    def visit(name: str, path: list[str]) -> None:
        if name in path:
            raise exception.InvalidInput(f'{_where(found, name)} "{name}" refers to itself: '
                                         f'{" → ".join([*path[path.index(name):], name])}.')
        if name in good:
            return
        for other in references(found[name].check):
            if other not in found:
                raise exception.InvalidInput(f'{_where(found, name)} "{name}" refers to the rule {other}, which does '
                                             'not exist.')
            visit(other, [*path, name])
        good.add(name)
    for name in found:
        visit(name, [])


def _where(found: dict[str, Rule], name: str) -> str:
    return f'The policy file {found[name].source}:' if found[name].source != DEFAULT else 'The rule'
