"""DLPack's structs in capsules, for tests that look at every field."""

import ctypes
from typing import Any

READ_ONLY, COPIED = 1, 2
NAMES = (b"dltensor", b"dltensor_versioned")


class DLTensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class Unversioned(ctypes.Structure):
    _fields_ = (("tensor", DLTensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p))


class Versioned(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", DLTensor),
    )


get_name = ctypes.pythonapi.PyCapsule_GetName
get_name.restype, get_name.argtypes = ctypes.c_char_p, [ctypes.py_object]
set_name = ctypes.pythonapi.PyCapsule_SetName
set_name.restype, set_name.argtypes = ctypes.c_int, [ctypes.py_object, ctypes.c_char_p]
get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
get_pointer.restype, get_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]

_new = ctypes.pythonapi.PyCapsule_New
_new.restype = ctypes.py_object
_new.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
_kept_names: dict[bytes, Any] = {}

USED = ctypes.create_string_buffer(b"used_dltensor")  # capsules keep the pointer to their name


def new_capsule(managed: Any, name: bytes) -> Any:
    """Make a capsule, without a destructor, over a struct that the test keeps."""
    text = _kept_names.setdefault(name, ctypes.create_string_buffer(name))
    return _new(ctypes.addressof(managed), ctypes.addressof(text), None)


def look(capsule: Any) -> Any:
    """Return the struct in a capsule that nobody has taken over."""
    name = get_name(capsule)
    struct = {b"dltensor": Unversioned, b"dltensor_versioned": Versioned}[name]
    return struct.from_address(get_pointer(capsule, name))


def take(capsule: Any) -> None:
    """Rename it, as who takes its tensor over does."""
    assert set_name(capsule, ctypes.cast(USED, ctypes.c_char_p)) == 0


def delete(managed: Any, address: int) -> None:
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(managed.deleter)(address)


def deleter_of(managed: Any) -> Any:
    return ctypes.CFUNCTYPE(None, ctypes.c_void_p)(managed.deleter)


class Used:
    """A tensor that a consumer has taken over; gives it back when it dies."""

    def __init__(self, capsule: Any) -> None:
        self.managed = look(capsule)
        take(capsule)

    def __del__(self) -> None:
        delete(self.managed, ctypes.addressof(self.managed))
