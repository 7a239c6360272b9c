/* SPDX-License-Identifier: Apache-2.0 */
/* Reads and writes the section of a cubin that holds the PTX it was made from. */
#include "sim/embedded_ptx/cubin_section.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <elf.h>

namespace sim {
namespace {

constexpr char section_name[] = ".cudacore_sim.ptx";
constexpr uint16_t machine_cuda = 190;

template <class T> bool get(const char *data, size_t size, uint64_t offset, T &out) {
  if (offset > size || sizeof out > size - offset)
    return false;
  std::memcpy(&out, data + offset, sizeof out);
  return true;
}

template <class T> void put(std::vector<char> &to, const T &value) {
  to.resize(to.size() + sizeof value);
  std::memcpy(to.data() + to.size() - sizeof value, &value, sizeof value);
}

void put(std::vector<char> &to, const std::string &text) {
  put(to, uint64_t{text.size()});
  to.insert(to.end(), text.begin(), text.end());
}

bool read(const char *data, size_t size, Elf64_Ehdr &header, std::vector<Elf64_Shdr> &sections) {
  if (!get(data, size, 0, header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
      header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != machine_cuda ||
      header.e_shentsize != sizeof(Elf64_Shdr) || header.e_shnum == SHN_LORESERVE - 1)
    return false;
  sections.resize(header.e_shnum);
  for (size_t i = 0; i < sections.size(); i++)
    if (header.e_shoff > size || !get(data, size, header.e_shoff + i * sizeof(Elf64_Shdr), sections[i]))
      return false;
  if (header.e_shstrndx >= sections.size())
    return false;
  const Elf64_Shdr &names = sections[header.e_shstrndx];
  return names.sh_offset <= size && names.sh_size <= size - names.sh_offset;
}

/*
 * Finds the section with PTX. If there are several, the last one counts, because nvJitLink copies the sections of its
 * inputs to its output.
 */
const Elf64_Shdr *find(const char *data, size_t size, const Elf64_Ehdr &header,
                       const std::vector<Elf64_Shdr> &sections) {
  const Elf64_Shdr &names = sections[header.e_shstrndx];
  const Elf64_Shdr *found = nullptr;
  for (const Elf64_Shdr &section : sections)
    if (section.sh_type == SHT_PROGBITS && section.sh_name < names.sh_size &&
        names.sh_size - section.sh_name >= sizeof section_name &&
        std::memcmp(data + names.sh_offset + section.sh_name, section_name, sizeof section_name) == 0 &&
        section.sh_offset <= size && section.sh_size <= size - section.sh_offset)
      found = &section;
  return found;
}

} // namespace

bool starts_as_ptx(std::string_view text) {
  while (!text.empty()) {
    size_t from = text.find_first_not_of(" \t\r\n");
    if (from == text.npos)
      return false;
    text.remove_prefix(from);
    if (text.compare(0, 2, "//") == 0)
      text.remove_prefix(std::min(text.find('\n'), text.size()));
    else if (text.compare(0, 2, "/*") == 0 && text.find("*/") != text.npos)
      text.remove_prefix(text.find("*/") + 2);
    else
      return text.compare(0, 8, ".version") == 0;
  }
  return false;
}

bool read_file(const char *name, std::vector<char> &out) {
  std::FILE *file = std::fopen(name, "rbe");
  if (file == nullptr)
    return false;
  out.clear();
  char part[65536];
  for (size_t got = 0; (got = std::fread(part, 1, sizeof part, file)) > 0;)
    out.insert(out.end(), part, part + got);
  bool complete = std::ferror(file) == 0; /* for example, a directory can be opened, but not read */
  std::fclose(file);
  return complete;
}

std::vector<char> embed_ptx(const char *cubin, size_t size, const std::vector<EmbeddedPtx> &parts) {
  std::vector<char> out(cubin, cubin + size);
  Elf64_Ehdr header{};
  std::vector<Elf64_Shdr> sections;
  if (!read(cubin, size, header, sections))
    return out;
  auto align = [&] { out.resize((out.size() + 7) / 8 * 8); };
  /*
   * The existing sections stay where they are. A new table of names and a new table of sections, both longer, are
   * appended.
   */
  align();
  Elf64_Shdr section{};
  section.sh_type = SHT_PROGBITS;
  section.sh_addralign = 8;
  section.sh_offset = out.size();
  put(out, uint64_t{parts.size()});
  for (const EmbeddedPtx &part : parts) {
    put(out, part.name);
    put(out, part.code);
  }
  section.sh_size = out.size() - section.sh_offset;
  Elf64_Shdr &names = sections[header.e_shstrndx];
  section.sh_name = static_cast<Elf64_Word>(names.sh_size);
  uint64_t names_at = out.size();
  out.insert(out.end(), cubin + names.sh_offset, cubin + names.sh_offset + names.sh_size);
  out.insert(out.end(), section_name, section_name + sizeof section_name);
  names.sh_offset = names_at;
  names.sh_size = out.size() - names_at;
  align();
  header.e_shoff = out.size();
  header.e_shnum++;
  sections.push_back(section);
  for (const Elf64_Shdr &one : sections)
    put(out, one);
  std::memcpy(out.data(), &header, sizeof header);
  return out;
}

std::vector<EmbeddedPtx> embedded_ptx(const char *cubin, size_t size) {
  Elf64_Ehdr header{};
  std::vector<Elf64_Shdr> sections;
  std::vector<EmbeddedPtx> parts;
  const Elf64_Shdr *section = read(cubin, size, header, sections) ? find(cubin, size, header, sections) : nullptr;
  if (section == nullptr)
    return parts;
  const char *data = cubin + section->sh_offset;
  uint64_t at = 0, count = 0;
  auto text = [&](std::string &out) {
    uint64_t length = 0;
    if (!get(data, section->sh_size, at, length) || length > section->sh_size - at - sizeof length)
      return false;
    out.assign(data + at + sizeof length, length);
    at += sizeof length + length;
    return true;
  };
  /* nvlink concatenates the sections of its inputs. Each of them begins at the next multiple of the alignment. */
  for (; get(data, section->sh_size, at, count); at = (at + 7) / 8 * 8) {
    at += sizeof count;
    for (uint64_t i = 0; i < count; i++) {
      EmbeddedPtx part;
      if (!text(part.name) || !text(part.code))
        return {};
      parts.push_back(std::move(part));
    }
  }
  return parts;
}

std::vector<char> empty_cubin(int capability) {
  std::vector<char> out;
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_ident[EI_VERSION] = EV_CURRENT;
  header.e_ident[EI_OSABI] = 0x33; /* CUDA's */
  header.e_ident[EI_ABIVERSION] =
      7; /* version 7: byte 0 of the flags is the real capability, byte 2 the virtual capability */
  header.e_type = ET_EXEC;
  header.e_machine = machine_cuda;
  header.e_version = EV_CURRENT;
  header.e_flags = static_cast<Elf64_Word>(capability | capability << 16 | 0x500); /* 0x500: 64-bit addresses */
  header.e_ehsize = sizeof header;
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = 2;
  header.e_shstrndx = 1;
  Elf64_Shdr none{}, names{};
  constexpr char texts[] = "\0.shstrtab";
  names.sh_name = 1;
  names.sh_type = SHT_STRTAB;
  names.sh_offset = sizeof header;
  names.sh_size = sizeof texts;
  names.sh_addralign = 1;
  header.e_shoff = (sizeof header + sizeof texts + 7) / 8 * 8;
  put(out, header);
  out.insert(out.end(), texts, texts + sizeof texts);
  out.resize(header.e_shoff);
  put(out, none);
  put(out, names);
  return out;
}

} // namespace sim
