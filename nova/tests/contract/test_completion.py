"""The completion of commands is that of the parsers, and bash understands it."""
import pathlib
import subprocess

import pytest

from nova.cmd import completion

FILE = pathlib.Path(__file__).parents[3] / 'etc/nova/nova-manage.bash-completion'


def test_the_file_is_that_of_the_parsers():
    """python -m nova.cmd.completion >etc/nova/nova-manage.bash-completion"""
    assert FILE.read_text() == completion.script()


@pytest.mark.parametrize(('words', 'found'), [
    ('nova-manage cel', 'cell_v2'), ('nova-manage cell_v2 list_', 'list_cells list_hosts'),
    ('nova-manage --debug quota se', 'set'), ('nova-manage quota show --fo', '--format'),
    ('nova-policy check --ro', '--roles'), ('nova-status upgrade check --fo', '--format'),
    ('nova-all --dr', '--driver'), ('/usr/bin/nova-api --config-f', '--config-file'), ('nova-compute x', '')])
def test_words_are_completed(words, found):
    script = f'''source {FILE}; COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _nova
                echo "${{COMPREPLY[*]}}"'''
    done = subprocess.run(['bash', '-c', script], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == (found + '\n', '')
