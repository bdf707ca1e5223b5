"""Options with a new name: a configuration with the old one is refused, with both names."""
import pytest

from nova import conf as nova_conf
from nova import exception
from nova.cmd.manage import main as manage
from nova.conf import renamed
from nova.runtime import service


@pytest.mark.parametrize('group, old', renamed.NAMES)
def test_old_names_are_refused_and_new_names_are_options(tmp_path, group, old):
    path, new = tmp_path / 'nova.conf', renamed.NAMES[group, old]
    path.write_text(f'[{group}]\n{old} = 1\n')
    with pytest.raises(renamed.RenamedOption) as refusal:
        nova_conf.new(files=[str(path)])
    assert f'[{group}] {old} is now [{group}] {new}' in str(refusal.value) and str(path) in str(refusal.value)
    conf = nova_conf.new(files=[])
    assert new in conf[group] and old not in conf[group]


def test_old_names_in_a_configuration_directory_are_refused(tmp_path):
    (tmp_path / 'more.conf').write_text('[network]\nshortcuts = false\n[conductor]\ntask_give_up = 60\n')
    with pytest.raises(renamed.RenamedOption, match='flow_offload.*task_timeout.*' + str(tmp_path)):
        nova_conf.new(['--config-dir', str(tmp_path)], files=[])


def test_an_old_name_whose_value_refers_to_another_option_is_refused(tmp_path):
    path = tmp_path / 'nova.conf'
    path.write_text('[libvirt]\nshare_program = $state_path/virtiofsd\n')
    with pytest.raises(renamed.RenamedOption, match='virtiofsd_path'):
        nova_conf.new(files=[str(path)])


def test_a_reload_refuses_old_names(tmp_path):
    path = tmp_path / 'nova.conf'
    path.write_text('[conductor]\ntask_timeout = 600\n')
    running = service.Process(nova_conf.new(files=[str(path)]), 'nova-conductor', [])
    path.write_text('[conductor]\ntask_give_up = 900\n')
    with pytest.raises(exception.InvalidInput, match='task_timeout'):
        running._reload_configuration()
    assert running.conf.conductor.task_timeout == 600


def test_old_names_in_the_environment_are_refused(monkeypatch):
    monkeypatch.setenv('OS_NETWORK__SHORTCUTS', 'false')
    with pytest.raises(renamed.RenamedOption, match='flow_offload.*the environment'):
        nova_conf.new(files=[])


def test_commands_print_the_new_name(tmp_path, capsys):
    path = tmp_path / 'nova.conf'
    path.write_text('[network]\nshortcuts = false\n')
    assert manage.main(['--config-file', str(path), 'db', 'convert']) == 2
    assert '[network] shortcuts is now [network] flow_offload' in capsys.readouterr().err
