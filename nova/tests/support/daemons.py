"""What tests share with nova/tests/integration/test_daemons.py."""
from nova.tests.integration import prepared

CONFIG = '''
[DEFAULT]
transport_url = {url}
state_path = {state}
host = {host}
compute_driver = fake
report_interval = 1
graceful_shutdown_timeout = 5
[messages]
signatures = accept
[http]
port = {port}
[network]
driver = fake
[identity]
password_hash_rounds = 4
[volume]
port = {volume_port}
[api]
nova_network_resources = true
'''
GLANCE = prepared.NO_IMAGES + '''
[database]
connection = sqlite:////nonexistent/none.sqlite
[api_database]
connection = sqlite:////nonexistent/none.sqlite
'''
