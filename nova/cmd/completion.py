"""Generator of the bash completion for the programs, etc/nova/nova-manage.bash-completion.

    python -m nova.cmd.completion >etc/nova/nova-manage.bash-completion
"""
from collections.abc import Callable, Iterator
import importlib.metadata
import re
import shlex

from nova.cmd import all as nova_all
from nova.cmd import command_line
from nova.cmd import policy
from nova.cmd import status
from nova.cmd.manage import main as manage

PACKAGE = 'solonova'
PARSERS: dict[str, Callable[[], command_line.Parser]] = {
    'nova-all': nova_all.new_parser, 'nova-manage': manage.command_parser, 'nova-policy': policy.new_parser,
    'nova-status': status.new_parser}
# options of nova.conf that every program accepts
OPTIONS = ('--config-file', '--config-dir', '--debug', '--help', '--log-dir', '--log-file', '--state-path', '--version')
FUNCTION = r'''
_nova() {
    local word=${COMP_WORDS[COMP_CWORD]} key=${COMP_WORDS[0]##*/} given number
    for ((number = 1; number < COMP_CWORD; number++)); do
        given="$key ${COMP_WORDS[number]}"
        [ -z "${_nova_words[$given]+known}" ] || key=$given
    done
    mapfile -t COMPREPLY < <(compgen -W "${_nova_words[$key]}" -- "$word")
}
'''


def script() -> str:
    """Return the completion script of all programs of this installation."""
    programs = sorted(point.name for point in importlib.metadata.distribution(PACKAGE).entry_points
                      if point.group == 'console_scripts')
    words = {name: list(OPTIONS) for name in programs}
    for name, parser in PARSERS.items():
        for key, found in _words(name, parser()):
            words[key] = [*dict.fromkeys((*found, *OPTIONS))] if key == name else found
    lines = [f'    [{shlex.quote(key)}]={shlex.quote(" ".join(found))}' for key, found in words.items()]
    return ('# Completes the commands and options of the programs; python -m nova.cmd.completion writes this file.\n'
            'declare -gA _nova_words=(\n' + '\n'.join(lines) + '\n)\n' + FUNCTION
            + 'complete -o default -F _nova ' + ' '.join(programs) + '\n')


def _words(name: str, parser: command_line.Parser) -> Iterator[tuple[str, list[str]]]:
    """Yield (typed words, [words that may come next]) for a parser and for each of its subparsers."""
    yield name, [*parser.commands, *re.findall(r'^  (?:-\w(?: \S+)?, )?(--[a-z][\w-]*)', parser.format_help(), re.M)]
    for word, below in parser.commands.items():
        yield from _words(f'{name} {word}', below)


if __name__ == '__main__':
    print(script(), end='')
