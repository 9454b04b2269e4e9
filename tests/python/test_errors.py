"""The classes of errors."""

import pickle

import memlease
import pytest
from memlease import _core, errors

BUILTINS = {
    memlease.InvalidArgument: ValueError,
    memlease.NotFound: KeyError,
    memlease.AlreadyExists: FileExistsError,
    memlease.Denied: PermissionError,
    memlease.QuotaExceeded: MemoryError,
    memlease.OutOfMemory: MemoryError,
    memlease.NoFreeSlot: TimeoutError,
    memlease.Timeout: TimeoutError,
    memlease.Withdrawn: LookupError,
    memlease.VersionGone: LookupError,
    memlease.ProducerDied: RuntimeError,
    memlease.WriteAborted: RuntimeError,
    memlease.ForkedClient: RuntimeError,
    memlease.Closed: ValueError,
    memlease.DaemonUnavailable: ConnectionError,
    memlease.DaemonLost: ConnectionError,
    memlease.VersionSkew: RuntimeError,
    memlease.Busy: RuntimeError,
    memlease.Unsupported: NotImplementedError,
    memlease.Interrupted: InterruptedError,
    memlease.Internal: RuntimeError,
    memlease.TooManyHeld: RuntimeError,
}


def test_every_error_of_the_library_has_its_class():
    names = {number: _core._error_name(number) for number in range(1, len(BUILTINS) + 1)}
    assert {number: error.__name__ for number, error in errors.BY_NUMBER.items()} == names
    assert set(errors.BY_NUMBER.values()) == set(BUILTINS)


@pytest.mark.parametrize(("error", "builtin"), BUILTINS.items(), ids=lambda c: c.__name__)
def test_every_error_is_what_a_user_would_catch(error, builtin):
    raised = error("it broke", "mend it")
    assert isinstance(raised, memlease.Error)
    assert isinstance(raised, builtin)
    assert str(raised) == f"it broke (mend it) [{error.code}]"
    again = pickle.loads(pickle.dumps(raised))
    assert type(again) is error
    assert (str(again), again.message, again.hint) == (str(raised), "it broke", "mend it")
    assert str(error("it broke")) == f"it broke [{error.code}]"
