"""What tests share with nova/tests/unit/test_manage.py."""
from nova.cmd.manage import main as manage


def run(capsys, *arguments):
    code = manage.main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    return code, out, err
