"""What tests share with nova/tests/integration/test_dashboard.py."""
USER_PAGES = {'': 'Overview', 'servers': 'Servers', 'create': 'Create server', 'server-groups': 'Server groups',
              'keypairs': 'Key pairs', 'images': 'Images', 'topology': 'Topology', 'networks': 'Networks',
              'routers': 'Routers', 'ports': 'Ports', 'qos-policies': 'QoS policies',
              'security-groups': 'Security groups', 'floating-ips': 'Floating addresses', 'volumes': 'Volumes',
              'snapshots': 'Snapshots', 'backups': 'Backups', 'transfers': 'Volume transfers',
              'buckets': 'Object store',
              'account': 'Account', 'usage': 'Usage', 'credentials': 'Application credentials', 'audit': 'Audit'}
ADMIN_PAGES = {'hosts': 'Hosts', 'explain': 'Why no host?', 'services': 'Services', 'metrics': 'Metrics',
               'cells': 'Cells', 'hypervisors': 'Hypervisors', 'aggregates': 'Aggregates and zones',
               'migrations': 'Migrations', 'flavors': 'Flavors', 'categories': 'Instance categories',
               'projects': 'Projects and quotas', 'users': 'Users'}
