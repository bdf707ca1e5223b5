"""[dashboard]: the web page below /dashboard/."""
from oslo_config import cfg

GROUP = 'dashboard'

OPTIONS = [
    cfg.BoolOpt('enabled', default=True,
                help='Serve the dashboard below /dashboard/ of the API. It is files alone: what it shows comes from '
                     'the APIs, with the token of the user in the browser.'),
    cfg.URIOpt('identity_url', schemes=['http', 'https'],
               help='URL of the Identity API, with its /v3, that browsers log in at. Empty: www_authenticate_uri of '
                    '[keystone_authtoken] with Keystone, and /identity/v3 of the same address in nova-all.'),
    cfg.ListOpt('connect_to', default=[],
                help='Origins (https://image.example.com:9292) of APIs in the service catalog that browsers reach at '
                     'another address than the dashboard and identity_url. The page may speak to no other, and these '
                     'services must allow its origin in their CORS settings.'),
]
