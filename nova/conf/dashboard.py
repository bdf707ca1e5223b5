"""[dashboard]: the web page below /dashboard/."""
from oslo_config import cfg

GROUP = 'dashboard'

OPTIONS = [
    cfg.BoolOpt('enabled', default=True,
                help='Whether to serve the dashboard, below /dashboard/ of the API. The dashboard consists of '
                     'static files; the browser loads its data from the APIs with the token of the user.'),
    cfg.URIOpt('identity_url', schemes=['http', 'https'],
               help='URL of the Identity API, including /v3, for logins of browsers. Empty: www_authenticate_uri '
                    'of [keystone_authtoken] with Keystone, or /identity/v3 at the same address in nova-all.'),
    cfg.ListOpt('connect_to', default=[],
                help='Origins of APIs in the service catalog, such as https://image.example.com:9292, whose '
                     'address differs from those of the dashboard and identity_url. The page can connect to no '
                     'other origins. These services must allow the origin of the dashboard in their CORS settings.'),
    cfg.DictOpt('websso', default={},
                help='Logins through the federation of an external Keystone (WebSSO), each a button of the login '
                     'page: PROTOCOL:TEXT or IDENTITY_PROVIDER/PROTOCOL:TEXT, such as openid:Company. Keystone must '
                     'list the URL of the dashboard with /dashboard/websso as trusted_dashboard.'),
]
