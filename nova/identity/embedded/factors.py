"""The combinations of methods that a user must use.

The options ``multi_factor_auth_enabled`` and ``multi_factor_auth_rules`` of a user hold them.
"""
import datetime
from typing import Any

from nova import exception
from nova.identity import tokens

LIFETIME = datetime.timedelta(minutes=5)         # of a receipt: to find the device and to type
# Methods that a receipt keeps. What a token or an application credential says ends with that, and is shown again.
KEPT = frozenset(('password', 'totp'))


def rules_of(user: dict[str, Any]) -> list[list[str]]:
    """The rules that are in force, each a list of methods; [] where any one method will do."""
    options = user['options'] or {}
    return options.get('multi_factor_auth_rules') or [] if options.get('multi_factor_auth_enabled') else []


def check(keys: tokens.KeyRing, user: dict[str, Any], methods: tuple[str, ...], before: tokens.Receipt | None,
          now: datetime.datetime) -> None:
    """Return when the methods are enough.

    A token has the methods of the login that it comes from, so that another scope needs no factor again. An application
    credential is what its owner has made for programs, after a login by these rules.

    :param methods: that were used, those of the receipt included
    :param before: the receipt that came with the login
    :raises FactorsMissing: other methods are needed besides; it has a receipt for those used
    :raises Unauthorized: they are not part of any rule
    """
    rules = rules_of(user)
    if not rules or 'application_credential' in methods or any(set(methods).issuperset(rule) for rule in rules):
        return
    fitting = [rule for rule in rules if set(rule) & set(methods)]
    if not fitting or not KEPT.issuperset(methods):
        raise exception.Unauthorized()
    receipt = tokens.Receipt(user['id'], methods, now, min([now + LIFETIME] + ([before.expires_at] if before else [])))
    raise exception.FactorsMissing(sealed=keys.seal_receipt(receipt), receipt=receipt, user=user, rules=fitting)


def opened(keys: tokens.KeyRing, text: str | None, now: datetime.datetime) -> tokens.Receipt | None:
    """The receipt that a client has sent, None for none.

    :raises Unauthorized: it is forged or its time is over
    """
    if text is None:
        return None
    receipt = keys.open_receipt(text)
    if receipt is None or now >= receipt.expires_at:
        raise exception.Unauthorized()
    return receipt
