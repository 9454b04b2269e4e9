// All arrays, by id and, while they have one, by name. Not thread-safe.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "server/core/array.h"

namespace memlease::server {

class Catalog {
 public:
  // The name must be free. The reference stays valid until erase().
  Array& add(std::unique_ptr<Array> array);
  // nullptr if there is none. A withdrawn array has no name, but its id until it is erased.
  Array* find(const std::string& name) const;
  Array* find(wire::ArrayId id) const;
  void remove_name(const Array& array);
  void erase(wire::ArrayId id);

  std::size_t size() const { return arrays_.size(); }
  // Those that have a name, in the order of names.
  const std::map<std::string, Array*>& named() const { return names_; }
  // Withdrawn ones too, in no order.
  std::vector<Array*> all() const;

 private:
  absl::flat_hash_map<wire::ArrayId, std::unique_ptr<Array>> arrays_;
  std::map<std::string, Array*> names_;
};

}  // namespace memlease::server
