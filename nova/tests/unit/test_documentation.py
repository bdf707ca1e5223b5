"""The reader of documentation pages."""
import pytest

from nova.tests import documentation

PAGE = """
Title
=====

.. code-block:: hcl
   :caption: main.tf

   resource "x" {
     a = 1
   }

.. code-block:: console

   $ ID=$(echo 7) \\
       && export ID
   $ cat main.tf
   resource "x" {
   $ false && cat <<'END'
   $ text
   END
   Conflict (HTTP 409)
   root@web:~# reboot
   # id --user
   ...

As a literal::

    openstack server list
"""


def test_commands_have_a_place_and_the_output_of_the_page():
    found = documentation.commands(PAGE)
    assert [command.place for command in found] == ['user', 'user', 'user', 'guest', 'root']
    assert found[0].text == 'ID=$(echo 7) \\\n    && export ID' and found[1].output == ['resource "x" {']
    assert found[2].text.endswith('\n$ text\nEND') and found[2].fails and not found[1].fails


def test_a_console_block_without_a_prompt_is_refused():
    with pytest.raises(ValueError, match='without a prompt'):
        documentation.commands('.. code-block:: console\n\n   openstack server list\n')


def test_a_block_with_a_caption_is_a_file():
    assert documentation.files(PAGE) == {'main.tf': 'resource "x" {\n  a = 1\n}\n'}


def test_commands_of_literal_blocks_are_reported():
    assert documentation.unmarked(PAGE) == ['openstack']


def test_commands_run_in_one_shell_until_one_differs_from_its_page(tmp_path):
    wanted = [documentation.Command('user', 'ID=7', []), documentation.Command('user', 'echo $ID of 10.0.0.1', [
        '7   of 192.0.2.1']), documentation.Command('user', 'false'),
              documentation.Command('user', 'true')]
    found = documentation.run(wanted, tmp_path, {'PATH': '/usr/bin:/bin'})
    assert [result.fault() for result in found] == [None, None, 'exit status 1']


@pytest.mark.parametrize('text, output, fault', [
    ('false', [], 'exit status 1'), ('true', ['Conflict (HTTP 409)'], 'exit status 0'),
    ('echo a', ['b'], "the output lacks 'b'"), ('echo b; echo a', ['a', 'b'], "the output lacks 'b'"),
    ('echo Conflict "(HTTP 409)"; false', ['Conflict (HTTP 409)'], None)])
def test_a_difference_from_the_page_is_a_fault(text, output, fault, tmp_path):
    result, = documentation.run([documentation.Command('user', text, output)], tmp_path, {'PATH': '/usr/bin:/bin'})
    assert result.fault() == fault
