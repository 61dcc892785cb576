"""What a ``postgresql:`` URL must look like, checked before anything is opened. No message holds a password.

libpq reads a URL from the left: what stands before the first ``@`` is the user and the password, unless a ``/`` comes
first. A password with one of these in it is taken apart, and its parts turn up as the names of hosts and databases, in
messages too. So here they are refused, by a message that names the rule.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote

import psycopg
from psycopg.conninfo import conninfo_to_dict

from fairlane.errors import ConfigError
from fairlane.settings import without_password
from fairlane.stores.postgres.connection import address_of

FORM: Final = "postgresql://user:password@host:5432/database?schema=fairlane"
_PARTS: Final = re.compile(r"(?:(?P<login>[^@/]*)@)?(?P<place>[^/?]*)(?P<base>/[^?]*)?(?:\?(?P<more>.*))?", re.DOTALL)
_HOST: Final = r"(\[[0-9A-Fa-f:.]+(%\w+)?\]|[^:\[\]@,]*)(:\d*)?"
_HOSTS: Final = re.compile(rf"{_HOST}(,{_HOST})*")
_UNKNOWN: Final = re.compile(r'invalid (?:URI query parameter:|connection option) "([^"]*)"')
_LOGIN_SAFE: Final = "%!$&'()*+,;=:-._~"
_HOST_SAFE: Final = "%[]:,.-_~"
_MORE_SAFE: Final = "%!$'()*,;=:-._~&/"


def checked(url: str) -> str:
    """Return a URL as libpq and :func:`~fairlane.stores.postgres.connection.address_of` read alike.

    Args:
        url: ``postgresql://…`` or ``postgres://…``, as for libpq, with ``schema=`` and ``pooled=`` beside its options.

    Raises:
        ConfigError: It is no such URL, or names an option that there is not.

    Example:
        >>> checked("postgres:///jobs?host=/run/postgresql&schema=a")
        'postgresql://@/jobs?host=/run/postgresql&schema=a'
    """
    shown = without_password(url)
    found = _PARTS.fullmatch(url.partition("://")[2])
    assert found is not None, "everything in it is optional"
    login, place, base, more = found["login"], found["place"], found["base"] or "", found["more"]
    if "@" in base or "/" in base[1:] or not _HOSTS.fullmatch(place):
        raise ConfigError(
            f"{shown!r} cannot be read: it looks like {FORM}, and in a user, a password or the name of a database "
            "@ is written %40, : is %3A, / is %2F, ? is %3F"
        )
    front = "" if login is None else quote(login, safe=_LOGIN_SAFE) + "@"
    options = "" if more is None else "?" + quote(more, safe=_MORE_SAFE)  # + stands for itself, and # begins nothing
    where = quote(place, safe=_HOST_SAFE) + quote(base, safe=_MORE_SAFE)
    clear = f"postgresql://{front or ('' if place else '@')}{where}{options}"
    try:
        conninfo_to_dict(address_of(clear).url)
    except (psycopg.ProgrammingError, ValueError) as error:
        option = _UNKNOWN.search(str(error))  # the rest of what it says may be the password
        why = (
            "what is no letter and no digit in a user or a password is written %XX, and % itself %25"
            if option is None or option[1] not in shown
            else f"libpq has no option {option[1]!r}"
        )
        raise ConfigError(f"{shown!r} cannot be read: {why}") from None
    return clear
