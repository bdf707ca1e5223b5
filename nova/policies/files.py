"""policy.yaml and the files of policy.d: what a deployment changes of the default rules.

The files are read in order, the main one first and those of a directory by their names; what comes later wins. A rule
that they do not name keeps its default, unless they name its extension: ``os_compute_api:os-services`` stands for
every operation of os-services that has no rule of its own there. What gives more than an operation itself
(``policies.EXTRAS``) is never given so. Names of the older API's files (``policies.former``) count where the files have
no name of today for a rule.
"""
from __future__ import annotations

from collections.abc import Iterator, Mapping
import dataclasses
import functools
import os
import re
from typing import Any

import yaml
from oslo_config import cfg
from oslo_policy import policy as oslo_policy

from nova import exception
from nova import policies
from nova.policies import former

SUFFIXES = ('.yaml', '.yml', '.json', '.conf')
DEFAULT = 'default'
_NEVER = re.compile(r'(?<![^\s(])!(?![^\s)])')         # the check that no caller passes


@dataclasses.dataclass(frozen=True)
class Rule:
    """One rule as it is in force.

    text    the check as it was written
    check   the same, parsed
    source  path of the file that says so, or DEFAULT
    by      name of the extension's rule that it follows, or None
    """

    text: str
    check: Any
    source: str
    by: str | None = None


def paths(conf: cfg.ConfigOpts) -> list[str]:
    """The files that count, in order.

    :raises InvalidInput: the configuration names a main file of its own, and it is not there
    """
    name = conf.oslo_policy.policy_file
    main = conf.find_file(name)
    if main is None and name != 'policy.yaml':
        raise exception.InvalidInput(f'policy_file in [oslo_policy] names {name}, which is not there.')
    found = [main] if main else []
    for directory in conf.oslo_policy.policy_dirs:
        directory = conf.find_file(directory)
        if directory:
            found += [os.path.join(directory, each) for each in sorted(os.listdir(directory))
                      if each.endswith(SUFFIXES) and not each.startswith('.')]
    return found


def signature(conf: cfg.ConfigOpts) -> list[tuple[Any, ...]]:
    """What differs when one of the files was changed, added or removed."""
    found = []
    for path in paths(conf):
        try:
            stat = os.stat(path)
        except FileNotFoundError:
            continue
        found.append((path, stat.st_mtime_ns, stat.st_size, stat.st_ino))
    return found


def rules(conf: cfg.ConfigOpts, added: dict[str, str] | None = None) -> dict[str, Rule]:
    """{name: Rule} of all rules in force, those that the files add included.

    :param added: {name: default} of rules in addition to the own ones
    :raises InvalidInput: a file is no policy; the sentence says which, where and why
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
    """{name: default} of each rule of ours."""
    return {str(row[0]): str(row[1]) for row in (*policies.BASE_RULES, *policies.RULES)}


def _in_force(name: str, text: str, written: dict[str, Rule], known: Mapping[str, str]) -> Rule:
    if name in written:
        return written[name]
    extension = _extension(name, known)
    while extension:
        if extension in written:
            return dataclasses.replace(written[extension], by=extension)
        extension = _extension(extension, known)
    former_texts = {each: rule.text for each, rule in written.items() if each in former.NAMES}
    older = former.text(name, known, former_texts, policies.EXTRAS) if former_texts else None
    if older:
        return Rule(older[0], _check(older[0]), written[older[1]].source, older[1])
    return Rule(text, _check(text), DEFAULT)


@functools.cache
def _check(text: str) -> Any:
    """The check of a default, parsed: many rules have the same one."""
    return oslo_policy.RuleDefault(DEFAULT, text).check


def _extension(name: str, known: Mapping[str, str]) -> str | None:
    """The name of what a rule belongs to: without its last part, unless that is a rule of its own."""
    above = name.rpartition(':')[0]
    return above if ':' in above and above not in known and name not in policies.EXTRAS else None


def is_asked(name: str) -> bool:
    """Whether a rule of this name has an effect by itself: it is one of ours, or of an extension of ours."""
    return name in _own_rules() or any(rule.startswith(name + ':') for rule in _own_rules())


def _read(path: str) -> Any:
    try:
        with open(path, encoding='utf-8') as file:
            document = yaml.safe_load(file)
    except yaml.YAMLError as error:
        mark = getattr(error, 'problem_mark', None)
        place = f', line {mark.line + 1}' if mark else ''
        raise exception.InvalidInput(
            f'The policy file {path}{place} is not YAML: {getattr(error, "problem", None) or error}.') from None
    except (OSError, UnicodeDecodeError) as error:
        raise exception.InvalidInput(f'The policy file {path} cannot be read: {error}.') from None
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise exception.InvalidInput(f'The policy file {path} has no rules: it must be "name": "check" lines.')
    for name, text in document.items():
        if not isinstance(name, str) or not isinstance(text, (str, list)):
            raise exception.InvalidInput(f'The policy file {path} has {name!r}: {text!r}, which is no rule: both '
                                         'must be texts, in quotation marks.')
    return document


def _parse(path: str, name: str, text: Any) -> Any:
    check = oslo_policy.RuleDefault(name, text).check
    refused = sum(str(part) == '!' for part in parts(check))
    if refused != len(_NEVER.findall(text if isinstance(text, str) else _flat(text))):
        raise exception.InvalidInput(f'The policy file {path} has a check that cannot be understood: '
                                     f'"{name}": "{text}".')
    return check


def _words(text: Any) -> str:
    """A check in today's words; of a list of lists, the older form, one inner list must pass as a whole."""
    if isinstance(text, str) or not text:
        return text or ''
    lists = [f'({" and ".join(each)})' if isinstance(each, list) else each for each in text if each]
    return ' or '.join(lists) or '!'


def _flat(old: list[Any]) -> str:
    """The checks of the old form, a list of lists, in one line."""
    return ' '.join(' '.join(map(str, each)) if isinstance(each, list) else str(each) for each in old)


def parts(check: Any) -> Iterator[Any]:
    """A check and all that it is made of, without what it refers to."""
    yield check
    for inner in getattr(check, 'rules', None) or ([check.rule] if hasattr(check, 'rule') else []):
        yield from parts(inner)


def references(check: Any) -> list[str]:
    """Names of the rules that a check refers to."""
    return [part.match for part in parts(check) if getattr(part, 'kind', None) == 'rule']


def _check_references(found: dict[str, Rule]) -> None:
    """:raises InvalidInput: a rule refers to one that is not there, or to itself"""
    good = set()

    def visit(name: str, path: list[str]) -> None:
        if name in path:
            raise exception.InvalidInput(f'{_where(found, name)} "{name}" refers to itself: '
                                         f'{" → ".join([*path[path.index(name):], name])}.')
        if name in good:
            return
        for other in references(found[name].check):
            if other not in found:
                raise exception.InvalidInput(f'{_where(found, name)} "{name}" refers to the rule {other}, which is '
                                             'not there.')
            visit(other, [*path, name])
        good.add(name)
    for name in found:
        visit(name, [])


def _where(found: dict[str, Rule], name: str) -> str:
    return f'The policy file {found[name].source}:' if found[name].source != DEFAULT else 'The rule'
