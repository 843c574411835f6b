#include "bindings/build_id.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <utility>

#ifdef __linux__
#include <elf.h>
#include <link.h>
#endif

namespace smex::bindings {

#ifdef __linux__

namespace {

std::string hexadecimal(const unsigned char* bytes, std::size_t count) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  for (std::size_t i = 0; i < count; ++i) {
    text += digits[bytes[i] >> 4];
    text += digits[bytes[i] & 15];
  }
  return text;
}

// The build id among the notes of one segment, or nothing. A note is a header, a name and a
// description, the last two padded to 4 bytes.
std::string build_id_among(const unsigned char* note, const unsigned char* end) {
  const auto padded = [](std::size_t size) { return (size + 3) & ~std::size_t{3}; };
  while (note + sizeof(ElfW(Nhdr)) <= end) {
    ElfW(Nhdr) header;
    std::memcpy(&header, note, sizeof header);
    const unsigned char* name = note + sizeof header;
    const unsigned char* description = name + padded(header.n_namesz);
    if (header.n_type == NT_GNU_BUILD_ID && header.n_namesz == sizeof ELF_NOTE_GNU &&
        std::memcmp(name, ELF_NOTE_GNU, sizeof ELF_NOTE_GNU) == 0) {
      return hexadecimal(description, header.n_descsz);
    }
    note = description + padded(header.n_descsz);
  }
  return "";
}

bool holds(const dl_phdr_info& library, const void* address) {
  const auto wanted = reinterpret_cast<std::uintptr_t>(address);
  for (std::size_t i = 0; i < library.dlpi_phnum; ++i) {
    const auto& segment = library.dlpi_phdr[i];
    const std::uintptr_t begin = library.dlpi_addr + segment.p_vaddr;
    if (segment.p_type == PT_LOAD && wanted >= begin && wanted < begin + segment.p_memsz) {
      return true;
    }
  }
  return false;
}

// For dl_iterate_phdr: 0 goes on to the next library.
int read_build_id(dl_phdr_info* library, std::size_t /*size*/, void* found) {
  if (!holds(*library, reinterpret_cast<const void*>(&build_id))) return 0;
  for (std::size_t i = 0; i < library->dlpi_phnum; ++i) {
    const auto& segment = library->dlpi_phdr[i];
    if (segment.p_type != PT_NOTE) continue;
    const auto* notes =
        reinterpret_cast<const unsigned char*>(library->dlpi_addr + segment.p_vaddr);
    std::string id = build_id_among(notes, notes + segment.p_memsz);
    if (id.empty()) continue;
    *static_cast<std::string*>(found) = std::move(id);
    break;
  }
  return 1;
}

}  // namespace

std::string build_id() {
  std::string found;
  dl_iterate_phdr(read_build_id, &found);
  return found;
}

#else

std::string build_id() { return ""; }

#endif

}  // namespace smex::bindings
