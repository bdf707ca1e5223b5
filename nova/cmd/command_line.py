"""What the command lines of nova-manage and nova-status have in common."""
import itertools
import re

_COUNT = re.compile('0*[1-9][0-9]{0,17}')
NOT_USABLE = 127             # exit code: --max-count is no number above zero


class Refused(Exception):
    """A value cannot be used; ends the command with this sentence and an exit code of its own."""

    def __init__(self, sentence, code):
        super().__init__(sentence)
        self.code = code


def flag(text):
    """An option of a command that is there or not."""
    return {'action': 'store_true', 'help': text}


def count(text):
    """The number that --max-count gives; None: it was not given.

    :raises Refused: it is no whole number above zero
    """
    if text is None:
        return None
    if not _COUNT.fullmatch(text):
        raise Refused('--max-count must be a whole number above zero.', NOT_USABLE)
    return int(text)


def parted(words, commands):
    """(options of nova.conf before the command, the rest): other tools write ``--config-file nova.conf db sync``.

    :param commands: {command: its actions, or a function}
    """
    from nova import conf

    words = _joined(words, conf.valued_options())
    for number, (word, action) in enumerate(itertools.pairwise([*words, None])):
        if word in commands and (callable(commands[word]) or action is None or action in commands[word]):
            return words[:number], words[number:]
    return [], words


def _joined(words, valued):
    """``--config-file nova.conf`` as one word, lest a command takes the value for an argument of its own."""
    joined, rest = [], iter(words)
    for word in rest:
        value = next(rest, None) if word in valued else None
        joined.append(word if value is None else f'{word}={value}')
    return joined
