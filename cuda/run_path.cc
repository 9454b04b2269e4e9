#include "cuda/run_path.h"

#include <elf.h>

#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>

#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"

namespace memlease::cuda {
namespace {

template <typename T>
bool read(const std::string& bytes, std::uint64_t at, T& value) {
  if (at > bytes.size() || bytes.size() - at < sizeof value) return false;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return true;
}

bool read_section(const std::string& bytes, const Elf64_Ehdr& header, std::uint64_t index,
                  Elf64_Shdr& section) {
  return read(bytes, header.e_shoff + index * sizeof section, section);
}

// "" if there is none.
std::string run_path_text(const std::string& bytes) {
  Elf64_Ehdr header;
  if (!read(bytes, 0, header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
      header.e_ident[EI_CLASS] != ELFCLASS64) {
    return {};
  }
  Elf64_Shdr dynamic;
  Elf64_Shdr strings;
  for (std::uint64_t i = 0; read_section(bytes, header, i, dynamic) && i < header.e_shnum; ++i) {
    if (dynamic.sh_type != SHT_DYNAMIC || !read_section(bytes, header, dynamic.sh_link, strings)) {
      continue;
    }
    Elf64_Dyn entry;
    for (std::uint64_t at = dynamic.sh_offset; read(bytes, at, entry) && entry.d_tag != DT_NULL;
         at += sizeof entry) {
      const std::uint64_t text = strings.sh_offset + entry.d_un.d_val;
      if (entry.d_tag == DT_RUNPATH && text < bytes.size()) return bytes.c_str() + text;
    }
  }
  return {};
}

}  // namespace

std::vector<std::string> run_path(const std::filesystem::path& library) {
  std::ifstream file(library, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), {});
  const std::string origin = std::filesystem::absolute(library).parent_path().string();
  std::vector<std::string> folders = absl::StrSplit(run_path_text(bytes), ':', absl::SkipEmpty());
  for (std::string& folder : folders) {
    absl::StrReplaceAll({{"$ORIGIN", origin}, {"${ORIGIN}", origin}}, &folder);
    folder = std::filesystem::path(folder).lexically_normal().string();
  }
  return folders;
}

}  // namespace memlease::cuda
