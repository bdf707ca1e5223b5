"""What tests share with nova/tests/perf/test_budgets.py."""
import sys


def calls(function):
    """Python and C functions called by ``function``."""
    count = 0

    def profile(_frame, event, _argument):
        nonlocal count
        count += event in ('call', 'c_call')
    sys.setprofile(profile)
    try:
        function()
    finally:
        sys.setprofile(None)
    return count
