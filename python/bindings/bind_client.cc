#include <memlease/for_bindings.h>

#include "python/bindings/array_handle.h"
#include "python/bindings/endless_wait.h"
#include "python/bindings/fastcall.h"
#include "python/bindings/package_parts.h"

namespace memlease::python {
namespace {

Client connect(const std::string& directory, bool start, const std::string& daemon, bool strict,
               const py::object& timeout) {
  ConnectOptions options;
  options.directory = directory;
  options.start = start;
  options.daemon = daemon;
  options.strict = strict;
  options.timeout = to_timeout(timeout.ptr(), "timeout");
  options.check_interrupt = &check_interrupt;
  options.check_after_signals = true;
  options.on_wait = [](const std::string& text) {
    if (Py_IsInitialized() == 0) return;
    const GilAcquire acquired;
    package_parts().log_wait(text);
  };
  return without_gil([&] { return Client::connect(options); });
}

std::unique_ptr<ArrayHandle> create(const Client& self, const std::string& name,
                                    const std::string& dtype, std::vector<std::int64_t> shape,
                                    std::vector<std::int64_t> strides_bytes,
                                    const std::string& device, std::uint32_t slots,
                                    std::uint32_t max_slots, bool persistent, std::uint32_t mode,
                                    bool exclusive, bool exist_ok, Attributes attributes,
                                    std::optional<std::uint32_t> owner) {
  CreateOptions options;
  options.name = name;
  options.dtype = parse_dtype(dtype);
  options.shape = std::move(shape);
  options.strides_bytes = std::move(strides_bytes);
  options.device = device;
  options.slots = slots;
  options.max_slots = max_slots;
  options.lifetime = persistent ? Lifetime::Persistent : Lifetime::Session;
  options.mode = mode;
  options.writer = exclusive ? Writer::Exclusive : Writer::Any;
  options.exist_ok = exist_ok;
  options.attributes = std::move(attributes);
  options.owner = owner;
  return std::make_unique<ArrayHandle>(without_gil([&] { return self.create(options); }));
}

std::unique_ptr<ArrayHandle> open(const Client& self, const std::string& name,
                                  std::optional<std::uint32_t> owner) {
  return std::make_unique<ArrayHandle>(without_gil([&] { return self.open(name, owner); }));
}

std::unique_ptr<ArrayHandle> wait_for(const Client& self, const std::string& name,
                                      const py::object& timeout,
                                      std::optional<std::uint32_t> owner) {
  const Timeout limit = to_timeout(timeout.ptr(), "timeout");
  const EndlessWait wait(name, limit);
  return std::make_unique<ArrayHandle>(
      without_gil([&] { return self.wait_for(name, limit, owner); }));
}

// The last copy of a client may wait for other threads, which may wait for the GIL.
struct DeleteWithoutGil {
  void operator()(Client* client) const {
    const GilRelease released;
    delete client;
  }
};

}  // namespace

// memlease.Client wraps this class and documents the calls; here they take plain values.
void bind_clients(py::module_& module) {
  module.def(
      "parse_dtype", [](const std::string& text) { return name_of(parse_dtype(text)); },
      "The canonical name of a dtype's name; raises InvalidArgument.");
  module.def(
      "itemsize", [](const std::string& dtype) { return parse_dtype(dtype).itemsize_bytes(); },
      "Bytes of one element of a dtype.");
  module.def(
      "typestr", [](const std::string& dtype) { return typestr_of(parse_dtype(dtype)); },
      "A dtype as NumPy's array interface spells it; empty where NumPy has no such type.");
  module.def(
      "version_number",
      [](const py::object& value, const char* argument) {
        return to_version(value.ptr(), argument);
      },
      "What an argument of this name says; raises TypeError and InvalidArgument.");
  module.def("tell_of_exit", &internal::ForBindings::tell_of_exit,
             "Tell the daemons that this process exits by itself.");
  module.def("leases_alive", &leases_alive, "Whether a lease or view of this process lives.");
  module.def("explain_faults", &explain_faults);
  module.def("explain_faults_unless_handled",
             &internal::ForBindings::explain_faults_unless_handled);
  module.def("explain_faults_to", &internal::ForBindings::explain_faults_to, py::arg("descriptor"),
             "Where its line goes from now on; returns where it went before.");
  py::class_<Client, std::unique_ptr<Client, DeleteWithoutGil>>(module, "Client")
      .def_static("connect", &connect, py::arg("directory"), py::arg("start"), py::arg("daemon"),
                  py::arg("strict"), py::arg("timeout"))
      .def("create", &create, py::kw_only(), py::arg("name"), py::arg("dtype"), py::arg("shape"),
           py::arg("strides_bytes"), py::arg("device"), py::arg("slots"), py::arg("max_slots"),
           py::arg("persistent"), py::arg("mode"), py::arg("exclusive"), py::arg("exist_ok"),
           py::arg("attributes"), py::arg("owner"))
      .def("open", &open, py::arg("name"), py::arg("owner"))
      .def("wait_for", &wait_for, py::arg("name"), py::arg("timeout"), py::arg("owner"))
      .def(
          "exists",
          [](const Client& self, const std::string& name) {
            return without_gil([&] { return self.exists(name); });
          },
          py::arg("name"))
      .def(
          "list",
          [](const Client& self, const std::string& pattern) {
            return without_gil([&] { return self.list(pattern); });
          },
          py::arg("pattern"))
      .def(
          "withdraw",
          [](const Client& self, const std::string& name) {
            without_gil([&] { self.withdraw(name); });
          },
          py::arg("name"))
      .def_property_readonly("directory", &Client::directory)
      .def_property_readonly("session_id", &Client::session_id)
      .def_property_readonly("closed", &Client::closed)
      .def_property_readonly("calls", &Client::calls)
      .def_property_readonly("copies", &Client::copies)
      .def_property_readonly("protected_slots", &Client::protected_slots)
      .def_property_readonly("refused_protections", &Client::refused_protections)
      .def_property_readonly("refused_registrations", &Client::refused_registrations)
      .def_property_readonly("empty_writes", &Client::empty_writes)
      .def("close", [](const Client& self) { without_gil([&] { self.close(); }); });
}

}  // namespace memlease::python
