"""Every error of the tree has a status and a code over HTTP."""

import inspect

import pytest

from fairlane import errors
from fairlane.http.problems import BY_STATUS, KINDS, kind_of

NEVER_SENT = {
    errors.FairlaneError: "the base of all",
    errors.JobFailed: "raised where a caller waits for a result; the API tells the job's state",
    errors.JobCancelled: "likewise",
    errors.GroupFailed: "likewise",
    errors.WaitTimeout: "likewise",
}


@pytest.mark.parametrize(
    "error", [one for _, one in inspect.getmembers(errors, inspect.isclass) if issubclass(one, errors.FairlaneError)]
)
def test_every_error_has_a_status(error):
    made = error.__new__(error)
    if error in NEVER_SENT:
        assert kind_of(made) == BY_STATUS[500]
    else:
        assert kind_of(made) != BY_STATUS[500]
        assert any(base in KINDS for base in error.__mro__)


def test_a_code_has_one_status():
    found = {}
    for kind in KINDS.values():
        assert found.setdefault(kind.code, kind.status) == kind.status
