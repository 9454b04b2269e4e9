// All arrays, by id and, while they have one, by name. Not thread-safe.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"
#include "server/core/array.h"

namespace memlease::server {

class Catalog {
 public:
  // The name must be free. The reference stays valid until erase().
  Array& add(std::unique_ptr<Array> array);
  // nullptr if there is none. A withdrawn array has no name, but its id until it is erased.
  Array* find(std::string_view name) const;
  Array* find(wire::ArrayId id) const;
  // Withdrawn ones too; nullptr: there is none with a higher number.
  Array* first_after(wire::ArrayId id) const;
  void remove_name(const Array& array);
  void erase(wire::ArrayId id);

  std::size_t size() const { return arrays_.size(); }
  struct ByName {
    using is_transparent = void;
    static std::string_view name_of(std::string_view name) { return name; }
    static std::string_view name_of(const Array* array) { return array->name; }
    bool operator()(const auto& a, const auto& b) const { return name_of(a) < name_of(b); }
  };
  // Those that have a name, in the order of names.
  using Names = absl::btree_set<Array*, ByName>;
  const Names& named() const { return names_; }
  // Of them those that have a home, and those that have no name any more.
  using Ids = absl::btree_set<wire::ArrayId>;
  const Ids& replicas() const { return replicas_; }
  const Ids& withdrawn() const { return withdrawn_; }
  // Withdrawn ones too, oldest first.
  std::vector<Array*> all() const;

 private:
  absl::btree_map<wire::ArrayId, std::unique_ptr<Array>> arrays_;
  Names names_;
  Ids replicas_;
  Ids withdrawn_;
};

}  // namespace memlease::server
