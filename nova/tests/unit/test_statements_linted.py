"""SELECTs that stand in modules, as each database gets them: no table in them is joined with nothing."""
import importlib
import pkgutil
import warnings

import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import mysql
from sqlalchemy.dialects import postgresql
from sqlalchemy.dialects import sqlite
from sqlalchemy.sql import compiler

import nova.db


def selects():
    """{module.name: SELECT}"""
    found = {}
    for module in pkgutil.walk_packages(nova.db.__path__, 'nova.db.'):
        if '.migrations' not in module.name:
            found |= {f'{module.name}.{name}': value for name, value in vars(importlib.import_module(
                module.name)).items() if isinstance(value, sa.Select)}
    return found


@pytest.mark.parametrize('dialect', [mysql, postgresql, sqlite])
def test_statements_contain_no_cartesian_product(dialect):
    """MariaDB's compiler warned of the one that reads a server's ports with the default group of its project."""
    known = selects()
    assert 'nova.db.networks.ports._FOR_ALLOCATION' in known and len(known) > 20
    with warnings.catch_warnings():
        warnings.simplefilter('error', sa.exc.SAWarning)
        for select in known.values():
            select.compile(dialect=dialect.dialect(), linting=compiler.FROM_LINTING)
