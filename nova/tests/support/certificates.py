"""What tests share with nova/tests/functional/test_certificates.py."""
from nova.cmd.manage import main as manage      # noqa: F401
