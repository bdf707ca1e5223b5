"""What tests share with nova/tests/integration/test_client_suites.py."""
import pathlib

TOOLS = pathlib.Path(__file__).resolve().parents[3] / 'tools'
