"""Commands of documentation pages: read them from the source of a page and run them in one shell.

A page marks its commands by prompts in blocks of ``.. code-block:: console``:

=================== ============================================
``$ command``       a user's command
``# command``       a command of root
``user@host$ ...``  a command in a guest
other lines         the output of the command above them
=================== ============================================

A block of another language with ``:caption: NAME`` is the file NAME of the current directory.
"""
import dataclasses
import pathlib
import re
import subprocess
import textwrap

PAGES = pathlib.Path(__file__).resolve().parents[2] / 'doc' / 'source'
SECONDS = 900                # timeout of the commands of one page, on a busy machine
BLOCK = re.compile(r'^( *)\.\. code-block:: (\w+)\n((?:\1   +:\w+:.*\n)*)\n((?:\1   .*\n|\s*\n)+)', re.M)
LITERAL = re.compile(r'^(?! *\.\. ).*::\n\n((?:[ ]+\S.*\n|\s*\n)+)', re.M)
PROMPT = re.compile(r'(?P<place>[\w@:~/.-]*)(?P<sign>[$#]) (?P<text>\S.*)')
HEREDOC = re.compile(r"<<-?\s*'?(\w+)'?")
PROGRAM = re.compile(r'^ +(?:[$#] )?(openstack|aws|curl|nova-(?:manage|policy|status)|terraform|ansible\S*) ', re.M)
ERROR = re.compile(r'\(HTTP [45]\d\d\)|\w+Exception: [45]\d\d|An error occurred')
VARIABLE_TEXT = re.compile(r'…|\.\.\.|\b[0-9a-f]{8}-[0-9a-f-]{27}\b|\b\d+\.\d+\.\d+\.\d+\b|\b[a-z]+-[0-9a-f]{17}\b'
                           r'|\s+')


@dataclasses.dataclass
class Command:
    """A command of a page.

    :param place: where it runs: user, root or guest
    :param text: of the shell, without the prompt
    :param output: the lines that the page shows
    """
    place: str
    text: str
    output: list[str] = dataclasses.field(default_factory=list)

    @property
    def fails(self) -> bool:
        """Return whether the page shows a refusal."""
        return any(map(ERROR.search, self.output))


@dataclasses.dataclass
class Result:
    """An executed command: exit status and output."""
    command: Command
    status: int
    printed: str

    def fault(self) -> str | None:
        """Return the difference between the page and the output, or None."""
        if (self.status != 0) != self.command.fails:
            return f'exit status {self.status}'
        position = 0
        for line in self.command.output:
            found = re.compile(_pattern(line)).search(self.printed, position)
            if found is None:
                return f'the output lacks {line!r}'
            position = found.end()
        return None


def _pattern(line: str) -> str:
    """Return an expression for a line of output; ids, addresses and ellipses match any text."""
    parts, end = [], 0
    for found in VARIABLE_TEXT.finditer(line.strip()):
        parts += [re.escape(line.strip()[end:found.start()]), r'\s+' if found[0].isspace() else '.*?']
        end = found.end()
    return ''.join([*parts, re.escape(line.strip()[end:])])


def read(page: str) -> str:
    """Return the source of a page, such as ``user/images``."""
    return (PAGES / f'{page}.rst').read_text()


def commands(source: str) -> list[Command]:
    """Return the commands of a page in order.

    :raises ValueError: a console block starts without a prompt
    """
    found: list[Command] = []
    for _indent, language, _options, body in BLOCK.findall(source):
        if language == 'console':
            found += _block(textwrap.dedent(body).rstrip('\n').split('\n'))
    return found


def _block(lines: list[str]) -> list[Command]:
    found: list[Command] = []
    rest = iter(lines)
    for line in rest:
        prompt = PROMPT.fullmatch(line)
        if prompt is None:
            if not found:
                raise ValueError(f'A console block starts without a prompt: {line!r}')
            found[-1].output += [line] if line.strip() else []
            continue
        text = prompt['text']
        while text.endswith('\\'):
            text += '\n' + next(rest)
        end = HEREDOC.search(text)
        while end is not None and not text.endswith('\n' + end[1]):
            text += '\n' + next(rest)
        found.append(Command('guest' if prompt['place'] else 'root' if prompt['sign'] == '#' else 'user', text))
    return found


def files(source: str) -> dict[str, str]:
    """Return {name: content} of the files that a page shows."""
    return {caption[1]: textwrap.dedent(body).rstrip('\n') + '\n' for _indent, language, options, body
            in BLOCK.findall(source) if (caption := re.search(r':caption: (\S+)', options))}


def unmarked(source: str) -> list[str]:
    """Return the programs that literal blocks of a page call without being console blocks."""
    return [line for body in LITERAL.findall(source) for line in PROGRAM.findall(body)]


def run(wanted: list[Command], directory: pathlib.Path, environ: dict[str, str],
        seconds: float = SECONDS) -> list[Result]:
    """Run commands in one shell until an exit status differs from the page; variables persist.

    :raises subprocess.TimeoutExpired: the commands took longer than ``seconds``
    """
    script = []
    for number, command in enumerate(wanted):
        script += [f'{{ {command.text}\n}} > .output.{number} 2>&1; status=$?', f'echo $status > .status.{number}',
                   f'[ $status {"-ne" if command.fails else "-eq"} 0 ] || exit']
    subprocess.run(['bash'], input='\n'.join(script) + '\n', cwd=directory, env=environ, text=True, timeout=seconds,
                   check=False)
    return [Result(command, int((directory / f'.status.{number}').read_text()),
                   (directory / f'.output.{number}').read_text(errors='replace'))
            for number, command in enumerate(wanted) if (directory / f'.status.{number}').exists()]
