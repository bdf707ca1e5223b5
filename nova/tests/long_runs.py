"""Tests of a minute or more whose subject shorter ones have as well: they run with NOVA_TEST_LONG=1 alone."""
import os

import pytest

LONG = bool(os.environ.get('NOVA_TEST_LONG'))
only = pytest.mark.skipif(not LONG, reason='takes minutes: set NOVA_TEST_LONG=1')
