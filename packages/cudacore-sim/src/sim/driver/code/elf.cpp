/* SPDX-License-Identifier: Apache-2.0 */
/* Reads kernels and variables from a cubin. */
#include "sim/driver/base/host_memory.h"
#include "sim/driver/code/image.h"

#include <algorithm>
#include <cstring>
#include <elf.h>
#include <map>

namespace sim {
namespace {

/*
 * Attributes in the sections .nv.info and .nv.info.<kernel>: a form, a number, and two bytes. If the form is
 * form_sized, the two bytes are the size of the data that follows. Otherwise they are the value.
 */
constexpr uint8_t form_sized = 4;
enum Attribute : uint8_t {
  attribute_max_threads = 0x05,
  attribute_required_threads = 0x10,
  attribute_frame_size = 0x11,
  attribute_parameter = 0x17,
  attribute_parameter_bytes = 0x19,
  attribute_registers = 0x2F,
  attribute_cluster = 0x3D,
};

class Reader {
public:
  Reader(const char *data, size_t size) : data(data), size(size) {}
  template <class T> bool get(size_t offset, T &out) const {
    if (offset > size || sizeof out > size - offset)
      return false;
    std::memcpy(&out, data + offset, sizeof out);
    return true;
  }
  std::string text(size_t offset) const {
    return offset < size ? std::string(data + offset, strnlen(data + offset, size - offset)) : std::string();
  }
  const char *data;
  size_t size;
};

struct Section {
  std::string name;
  Elf64_Shdr header;
};

bool starts_with(const std::string &text, const char *prefix) {
  return text.compare(0, std::strlen(prefix), prefix) == 0;
}

bool read_sections(const Reader &file, const Elf64_Ehdr &header, std::vector<Section> &out) {
  for (size_t i = 0; i < header.e_shnum; i++) {
    Section section{};
    if (!file.get(header.e_shoff + i * sizeof(Elf64_Shdr), section.header))
      return false;
    const Elf64_Shdr &h = section.header;
    if (h.sh_type != SHT_NOBITS && (h.sh_offset > file.size || h.sh_size > file.size - h.sh_offset))
      return false;
    out.push_back(std::move(section));
  }
  if (header.e_shstrndx >= out.size())
    return false;
  for (Section &section : out)
    section.name = file.text(out[header.e_shstrndx].header.sh_offset + section.header.sh_name);
  return true;
}

template <class Found> void for_each_attribute(const Reader &file, const Section &section, Found found) {
  size_t at = section.header.sh_offset, end = at + section.header.sh_size;
  while (at + 4 <= end) {
    uint8_t form = 0, attribute = 0;
    uint16_t value = 0;
    file.get(at, form);
    file.get(at + 1, attribute);
    file.get(at + 2, value);
    size_t length = form == form_sized ? value : 0;
    if (length > end - at - 4)
      return;
    found(attribute, value, Reader(file.data + at + 4, length));
    at += 4 + (length + 3) / 4 * 4;
  }
}

void read_kernel(const Reader &file, const Section &section, KernelInfo &kernel) {
  std::map<uint16_t, Parameter> parameters;
  for_each_attribute(file, section, [&](uint8_t attribute, uint16_t value, const Reader &data) {
    uint16_t ordinal = 0, offset = 0;
    uint32_t flags = 0;
    auto triple = [&](Dim3 &out) {
      for (size_t i = 0; i < 3; i++)
        data.get(i * 4, out[i]);
    };
    switch (attribute) {
    case attribute_parameter: /* index, ordinal, offset, flags; the upper bits of the flags are the size */
      if (data.get(4, ordinal) && data.get(6, offset) && data.get(8, flags))
        parameters[ordinal] = {offset, flags >> 18, 1};
      break;
    case attribute_parameter_bytes:
      kernel.parameter_bytes = value;
      break;
    case attribute_max_threads:
      triple(kernel.max_threads);
      break;
    case attribute_required_threads:
      triple(kernel.required_threads);
      break;
    case attribute_cluster:
      triple(kernel.required_cluster);
      break;
    default:
      break;
    }
  });
  for (const auto &entry : parameters)
    kernel.parameters.push_back(entry.second);
}

class Cubin {
public:
  Cubin(const char *data, size_t size) : file(data, size) {}

  /* Reads the headers and the symbols. False: the file is broken, or has no device code. */
  bool open();
  int capability() const;
  void read_kernels(std::vector<KernelInfo> &out) const;
  void read_variables(std::vector<Variable> &out) const;

private:
  void read_symbols();
  std::string name_of_symbol(size_t index) const;
  void read_shared(std::map<std::string, KernelInfo> &kernels) const;
  void read_resources(std::map<std::string, KernelInfo> &kernels) const;
  bool has_section(const std::string &name) const;

  Reader file;
  Elf64_Ehdr header{};
  std::vector<Section> sections;
  std::vector<Elf64_Sym> symbols;
  const Section *symbol_names = nullptr;
};

bool Cubin::open() {
  constexpr uint16_t machine_cuda = 190;
  if (!file.get(0, header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_machine != machine_cuda ||
      header.e_shentsize != sizeof(Elf64_Shdr) || !read_sections(file, header, sections))
    return false;
  read_symbols();
  return true;
}

void Cubin::read_symbols() {
  for (const Section &section : sections)
    if (section.header.sh_type == SHT_SYMTAB && section.header.sh_link < sections.size()) {
      symbol_names = &sections[section.header.sh_link];
      for (size_t at = 0; at + sizeof(Elf64_Sym) <= section.header.sh_size; at += sizeof(Elf64_Sym)) {
        Elf64_Sym symbol{};
        file.get(section.header.sh_offset + at, symbol);
        symbols.push_back(symbol);
      }
    }
}

std::string Cubin::name_of_symbol(size_t index) const {
  return index < symbols.size() ? file.text(symbol_names->header.sh_offset + symbols[index].st_name) : std::string();
}

/* The newer file format has the capability in another byte of the flags. */
int Cubin::capability() const {
  return header.e_ident[EI_ABIVERSION] >= 8 ? static_cast<int>(header.e_flags >> 8 & 0xFF)
                                            : static_cast<int>(header.e_flags & 0xFF);
}

bool Cubin::has_section(const std::string &name) const {
  return std::any_of(sections.begin(), sections.end(), [&](const Section &section) { return section.name == name; });
}

void Cubin::read_kernels(std::vector<KernelInfo> &out) const {
  std::map<std::string, KernelInfo> functions;
  std::vector<std::string> order;
  for (const Section &section : sections)
    if (starts_with(section.name, ".text.")) {
      std::string name = section.name.substr(6);
      order.push_back(name);
      functions[name].name = name;
      functions[name].registers = section.header.sh_info >> 24;
    }
  for (const Section &section : sections)
    if (starts_with(section.name, ".nv.info."))
      if (auto function = functions.find(section.name.substr(9)); function != functions.end())
        read_kernel(file, section, function->second);
  read_shared(functions);
  read_resources(functions);
  /* Device functions have sections, too, but only a kernel has information about parameters. */
  for (const std::string &name : order)
    if (has_section(".nv.constant0." + name))
      out.push_back(functions[name]);
}

/* From 9.0 on, the sections of kernels that have shared memory include the reserved part. */
void Cubin::read_shared(std::map<std::string, KernelInfo> &kernels) const {
  auto is_reserved = [](const Section &section) { return starts_with(section.name, ".nv.shared.reserved."); };
  const uint64_t reserved = std::any_of(sections.begin(), sections.end(), is_reserved) ? 1024 : 0;
  for (const Section &section : sections)
    if (starts_with(section.name, ".nv.shared."))
      if (auto kernel = kernels.find(section.name.substr(11)); kernel != kernels.end())
        kernel->second.static_shared_bytes =
            static_cast<uint32_t>(section.header.sh_size - std::min<uint64_t>(section.header.sh_size, reserved));
}

void Cubin::read_resources(std::map<std::string, KernelInfo> &kernels) const {
  auto read = [&](uint8_t attribute, uint16_t, const Reader &value) {
    uint32_t index = 0, number = 0;
    if (!value.get(0, index) || !value.get(4, number))
      return;
    auto kernel = kernels.find(name_of_symbol(index));
    if (kernel == kernels.end())
      return;
    if (attribute == attribute_registers)
      kernel->second.registers = number;
    else if (attribute == attribute_frame_size)
      kernel->second.local_bytes = number;
  };
  for (const Section &section : sections)
    if (section.name == ".nv.info")
      for_each_attribute(file, section, read);
}

void Cubin::read_variables(std::vector<Variable> &out) const {
  for (size_t i = 0; i < symbols.size(); i++) {
    const Elf64_Sym &symbol = symbols[i];
    bool is_data = ELF64_ST_TYPE(symbol.st_info) == STT_OBJECT && symbol.st_shndx < sections.size();
    if (!is_data || ELF64_ST_BIND(symbol.st_info) == STB_LOCAL)
      continue;
    const std::string &where = sections[symbol.st_shndx].name;
    bool is_constant = starts_with(where, ".nv.constant");
    if (is_constant || starts_with(where, ".nv.global"))
      out.push_back(
          {name_of_symbol(i), is_constant ? Space::constant : Space::global, symbol.st_size, 16, false, {}, {}});
  }
}

} // namespace

/* Sections that have a size, but no bytes in the file. Relocatable objects use CUDA's own types for some of them. */
static bool has_bytes(const Elf64_Shdr &section) {
  switch (section.sh_type) {
  case SHT_NULL:
  case SHT_NOBITS:
  case 0x70000007: /* .nv.global */
  case 0x7000000a: /* .nv.shared */
  case 0x70000015: /* .nv.shared.reserved */
    return false;
  default:
    return true;
  }
}

size_t elf_size(const char *data, size_t readable) {
  Elf64_Ehdr header{};
  if (!Reader(data, readable).get(0, header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
      header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_shentsize != sizeof(Elf64_Shdr))
    return 0;
  uint64_t sections = header.e_shoff + uint64_t{header.e_shnum} * sizeof(Elf64_Shdr);
  uint64_t programs = header.e_phnum != 0 ? header.e_phoff + uint64_t{header.e_phnum} * header.e_phentsize : 0;
  /* A linker may place the two tables before the contents of the sections, which then determine the end. */
  uint64_t end = sections > programs ? sections : programs;
  uint64_t first = header.e_shoff;
  if (header.e_shnum == 0 || first > (uint64_t{1} << 31) ||
      !is_usable(reinterpret_cast<uint64_t>(data), sections, false))
    return 0;
  for (size_t i = 0; i < header.e_shnum; i++) {
    Elf64_Shdr section{};
    std::memcpy(&section, data + first + i * sizeof section, sizeof section);
    if (has_bytes(section) && section.sh_offset + section.sh_size > end && section.sh_size < (uint64_t{1} << 31) &&
        section.sh_offset < (uint64_t{1} << 31))
      end = section.sh_offset + section.sh_size;
  }
  return end;
}

bool read_elf(const char *data, size_t size, std::vector<KernelInfo> &kernels, std::vector<Variable> &variables,
              int &capability) {
  Cubin cubin(data, size);
  if (!cubin.open())
    return false;
  capability = cubin.capability();
  cubin.read_kernels(kernels);
  cubin.read_variables(variables);
  return true;
}

} // namespace sim
