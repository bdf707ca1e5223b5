"""Multi-factor rules: the authentication methods that a login of a user requires.

The options ``multi_factor_auth_enabled`` and ``multi_factor_auth_rules`` of a user set these rules.
"""
import datetime

from nova import exception
from nova.db.tables.rows import IdentityUsersRow
from nova.identity import tokens

LIFETIME = datetime.timedelta(minutes=5)       # lifetime of a receipt: time to find the device and type the code
# Methods that a receipt may store. A login with another method, such as a token, gets no receipt.
RECEIPT_METHODS = frozenset(('password', 'totp'))


class User(IdentityUsersRow):
    """A user with the name of the user's domain."""

    domain_name: str


def rules_of(user: IdentityUsersRow) -> list[list[str]]:
    """Return the active rules, each a list of methods, or [] if any single method is enough."""
    options = user['options'] or {}
    return options.get('multi_factor_auth_rules') or [] if options.get('multi_factor_auth_enabled') else []


def check(keys: tokens.KeyRing, user: User, methods: tuple[str, ...], before: tokens.Receipt | None,
          now: datetime.datetime) -> None:
    """Check that the methods satisfy a rule.

    A token lists the methods of its original login, so a login with a token needs no further factor. Logins with
    application credentials are exempt, because the owner satisfied the rules before creating the credential.

    :param methods: used methods, including those of the receipt
    :param before: receipt sent with the login
    :raises FactorsMissing: further methods are required; contains a receipt
    :raises Unauthorized: no rule contains the methods
    """
    rules = rules_of(user)
    if not rules or 'application_credential' in methods or any(set(methods).issuperset(rule) for rule in rules):
        return
    fitting = [rule for rule in rules if set(rule) & set(methods)]
    if not fitting or not RECEIPT_METHODS.issuperset(methods):
        raise exception.Unauthorized()
    receipt = tokens.Receipt(user['id'], methods, now, min([now + LIFETIME] + ([before.expires_at] if before else [])))
    raise exception.FactorsMissing(sealed=keys.seal_receipt(receipt), methods=receipt.methods, user=user,
                                   issued_at=receipt.issued_at, expires_at=receipt.expires_at, rules=fitting)


def opened(keys: tokens.KeyRing, text: str | None, now: datetime.datetime) -> tokens.Receipt | None:
    """Decrypt a receipt; return None if there is no receipt.

    :raises Unauthorized: it is invalid or expired
    """
    if text is None:
        return None
    receipt = keys.open_receipt(text)
    if receipt is None or now >= receipt.expires_at:
        raise exception.Unauthorized()
    return receipt
