"""What tests share with nova/tests/contract/test_systemd.py."""
# name: the exposure that systemd-analyze finds at most, of 10
DAEMONS = {'nova-api': 1.5, 'nova-api-ec2': 1.5, 'nova-api-metadata': 1.5, 'nova-conductor': 1.5, 'nova-scheduler': 1.5,
           'nova-novncproxy': 1.5, 'nova-spicehtml5proxy': 1.5, 'nova-serialproxy': 1.5, 'nova-xvpvncproxy': 1.5,
           'nova-volume': 2.8, 'nova-cert': 1.5, 'nova-objectstore': 1.5, 'nova-console': 1.5, 'nova-consoleauth': 1.5,
           'nova-network': 4.0, 'nova-compute': 4.0, 'nova-all': 4.7}
