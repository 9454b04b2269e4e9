// Leases in arithmetic and comparisons: what NumPy does with their arrays. Without this Python
// would take the bytes of a lease for text, as in int(lease), and call two leases equal only if
// they are one object.
#pragma once

#include <Python.h>

#include "python/bindings/fastcall.h"
#include "python/bindings/lease.h"

namespace memlease::python {

// Its array, if it is a lease; else itself. Throws for a lease of a GPU. `fills`: all elements are
// going to be written, and none read.
inline py::object operand(PyObject* object, bool fills = false) {
  const py::handle handle(object);
  if (Py_TYPE(object) == lease_type<ReadLease>) return lease_of<ReadLease>(handle).elements();
  if (Py_TYPE(object) == lease_type<WriteLease>) {
    auto& lease = lease_of<WriteLease>(handle);
    return fills ? lease.numpy() : lease.elements();
  }
  return py::reinterpret_borrow<py::object>(handle);
}

template <auto Operation>
PyObject* unary(PyObject* self) {
  return guarded([&] { return Operation(operand(self).ptr()); });
}

template <auto Operation>
PyObject* binary(PyObject* left, PyObject* right) {
  return guarded([&] { return Operation(operand(left).ptr(), operand(right).ptr()); });
}

// Its array has changed, unless `changed` is a new one: then its elements take that one's place.
inline PyObject* keep_in_place(PyObject* self, PyObject* array, PyObject* changed) {
  const auto owned = py::reinterpret_steal<py::object>(changed);
  if (!owned) return nullptr;
  if (changed != array && PyObject_SetItem(array, Py_Ellipsis, changed) != 0) return nullptr;
  return Py_NewRef(self);
}

// lease += other: NumPy changes the array in place, and the name still means the lease.
// Of a read lease it refuses: else the name would silently mean another array.
template <auto Operation>
PyObject* in_place(PyObject* self, PyObject* other) {
  return guarded([&] {
    const py::object array = operand(self);
    return keep_in_place(self, array.ptr(), Operation(array.ptr(), operand(other).ptr()));
  });
}

inline PyObject* power(PyObject* base, PyObject* exponent, PyObject* modulus) {
  return guarded([&] {
    return PyNumber_Power(operand(base).ptr(), operand(exponent).ptr(), operand(modulus).ptr());
  });
}

inline PyObject* power_in_place(PyObject* self, PyObject* exponent, PyObject* modulus) {
  return guarded([&] {
    const py::object array = operand(self);
    return keep_in_place(
        self, array.ptr(),
        PyNumber_InPlacePower(array.ptr(), operand(exponent).ptr(), operand(modulus).ptr()));
  });
}

inline PyObject* compare(PyObject* left, PyObject* right, int operation) {
  return guarded(
      [&] { return PyObject_RichCompare(operand(left).ptr(), operand(right).ptr(), operation); });
}

// A lease is a key as an object is, although it compares as an array.
inline Py_hash_t identity_hash(PyObject* self) { return _Py_HashPointer(self); }

inline int contains(PyObject* self, PyObject* value) {
  return guarded([&] {
    const int found = PySequence_Contains(operand(self).ptr(), operand(value).ptr());
    if (found < 0) throw py::error_already_set();
    return found;
  });
}

// The error for an array without axes is NumPy's.
inline PyObject* iterate(PyObject* self) {
  return guarded([&] { return PyObject_GetIter(operand(self).ptr()); });
}

}  // namespace memlease::python
