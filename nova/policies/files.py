"""Policy files: the rules of policy.yaml and policy.d.

The main file is read first, then the files of each directory in alphabetical order; the last value of a rule wins. A
rule without a value keeps its default, unless the files name its extension: ``os_compute_api:os-services`` applies to
every operation of os-services without a value. Rules in ``policies.EXTRAS`` never follow their extension. Legacy rule
names (``policies.legacy_names``) apply to rules without a value under their current name.
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
from nova.policies import legacy_names

if TYPE_CHECKING:
    from nova.runtime.hooks.oslo_policy import BaseCheck

SUFFIXES = ('.yaml', '.yml', '.json', '.conf')
DEFAULT = 'default'
Text = str | list[str | list[str]]          # a check in a file; a list is the older form
_NEVER = re.compile(r'(?<![^\s(])!(?![^\s)])')         # the check that no caller passes


@dataclasses.dataclass(frozen=True)
class Rule:
    """One effective rule.

    :ivar text: the check as written
    :ivar check: the parsed check
    :ivar source: path of the file that defines it, or DEFAULT
    :ivar by: name of the extension's or legacy rule that it follows, or None
    """

    text: str
    check: BaseCheck
    source: str
    by: str | None = None


def paths(conf: cfg.ConfigOpts) -> list[str]:
    """Return the paths of the policy files, in order.

    :raises InvalidInput: the configured main file does not exist
    """
    name = conf.oslo_policy.policy_file
    main = conf.find_file(name)
    if main is None and name != 'policy.yaml':
        raise exception.InvalidInput(f'The policy file {name} of [oslo_policy] policy_file does not exist.')
    found = [main] if main else []
    for directory in conf.oslo_policy.policy_dirs:
        directory = conf.find_file(directory)
        if directory:
            found += [os.path.join(directory, each) for each in sorted(os.listdir(directory))
                      if each.endswith(SUFFIXES) and not each.startswith('.')]
    return found


def signature(conf: cfg.ConfigOpts) -> list[tuple[str, int, int, int]]:
    """Return a value that changes when one of the files is changed, added or removed."""
    found = []
    for path in paths(conf):
        try:
            stat = os.stat(path)
        except FileNotFoundError:
            continue
        found.append((path, stat.st_mtime_ns, stat.st_size, stat.st_ino))
    return found


def rules(conf: cfg.ConfigOpts, added: dict[str, str] | None = None) -> dict[str, Rule]:
    """Return {name: Rule} of all effective rules, including additional rules of the files.

    :param added: {name: default} of rules of plugins
    :raises InvalidInput: a file is invalid
    """
    written = {}
    for path in paths(conf):
        for name, text in _read(path).items():
            written[name] = Rule(_words(text), _parse(path, name, text), path)
    known = _own_rules() | (added or {})
    found = {**written, **{name: _in_force(name, text, written, known) for name, text in known.items()}}
    _check_references(found)
    return found


@functools.cache
def _own_rules() -> dict[str, str]:
    """Return {name: default} of the product's rules."""
    return {str(row[0]): str(row[1]) for row in (*policies.BASE_RULES, *policies.RULES)}


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
    """Parse a default check; many rules share one."""
    return oslo_policy.RuleDefault(DEFAULT, text).check


def _extension(name: str, known: Mapping[str, str]) -> str | None:
    """Return the name of the rule's extension: the name without its last part, unless that is a rule."""
    above = name.rpartition(':')[0]
    return above if ':' in above and above not in known and name not in policies.EXTRAS else None


def has_effect(name: str) -> bool:
    """Whether a rule of this name has an effect: it is a rule or an extension of the product."""
    return name in _own_rules() or any(rule.startswith(name + ':') for rule in _own_rules())


def _read(path: str) -> dict[str, Text]:
    try:
        with open(path, encoding='utf-8') as file:
            document = yaml.safe_load(file)
    except yaml.YAMLError as error:
        mark = getattr(error, 'problem_mark', None)
        place = f', line {mark.line + 1}' if mark else ''
        raise exception.InvalidInput(
            f'The policy file {path}{place} is not YAML: {getattr(error, "problem", None) or error}.') from None
    except (OSError, UnicodeDecodeError) as error:
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
    check = oslo_policy.RuleDefault(name, text).check      # type: ignore[arg-type]  # it parses the older form too
    refused = sum(str(part) == '!' for part in parts(check))
    if refused != len(_NEVER.findall(text if isinstance(text, str) else _flat(text))):
        raise exception.InvalidInput(f'The policy file {path} has an invalid check: '
                                     f'"{name}": "{text}".')
    return check


def _words(text: Text) -> str:
    """Return a check as text; the older form, a list of lists, becomes "(a and b) or (c)"."""
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
    """Yield a check and its parts, without the referenced rules."""
    yield check
    if isinstance(check, (oslo_policy.AndCheck, oslo_policy.OrCheck)):
        for inner in check.rules:
            yield from parts(inner)
    elif isinstance(check, oslo_policy.NotCheck):
        yield from parts(check.rule)


def references(check: BaseCheck) -> list[str]:
    """Return the names of the rules that a check refers to."""
    return [part.match for part in parts(check) if isinstance(part, oslo_policy.RuleCheck)]


def _check_references(found: dict[str, Rule]) -> None:
    """Check the references between rules.

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
