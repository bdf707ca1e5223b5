"""tools/proofs/dependencies.py: each requirement has one lower bound, and a bound that was not installed is found."""
import importlib
import pathlib
import sys

import pytest

PROOFS = pathlib.Path(__file__).resolve().parents[3] / 'tools' / 'proofs'


@pytest.fixture
def script(monkeypatch):
    if not PROOFS.exists():
        pytest.skip('tools/proofs is not part of an installed nova')
    monkeypatch.syspath_prepend(str(PROOFS))
    yield importlib.import_module('dependencies')
    sys.modules.pop('dependencies')


def test_each_requirement_has_one_lower_bound(script):
    found = script.requirements(script.TREE)
    listed = (script.TREE / 'requirements.txt').read_text().split()
    assert {f'{name}>={bound}' for name, bound in found.items()} >= set(listed)
    assert {'libvirt-python', 'PyMySQL', 'pytest'} <= set(found)


@pytest.mark.parametrize('lines', ['alembic', 'alembic==1.20', 'alembic>=1.20\nalembic>=1.21'])
def test_requirement_without_one_lower_bound_is_refused(script, tmp_path, lines):
    (tmp_path / 'requirements.txt').write_text(lines)
    extras = ''.join(f'{name} =\n    bcrypt>=5.0\n' for name in script.EXTRAS)
    (tmp_path / 'setup.cfg').write_text(f'[options.extras_require]\n{extras}')
    with pytest.raises(ValueError, match='alembic'):
        script.requirements(tmp_path)


def test_bound_that_differs_from_the_installed_version_is_reported(script):
    installed = {name: f'{bound}.0' for name, bound in script.requirements(script.TREE).items()}
    assert script.wrong_bounds(installed) == []
    installed['alembic'] = '1.99'
    wrong, = script.wrong_bounds(installed)
    assert 'alembic>=' in wrong and '1.99' in wrong
