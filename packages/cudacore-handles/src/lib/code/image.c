/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Module images. The driver gets a pointer without a length, and does not check the headers of the image. So each
 * header is checked here first, and an image whose headers exceed its length never reaches the driver.
 */
#define _GNU_SOURCE
#include "code/kernel.h"

#include "base/errors.h"

#include <elf.h>
#include <string.h>

#define OPERATION "cch_library_load"

static const uint32_t FATBIN_MAGIC = 0xBA55ED50u;
enum { MACHINE_CUDA = 190 };

/* A fat binary is a header and a sequence of entries, each with its own header. */
typedef struct fatbin_header {
  uint32_t magic;
  uint16_t version;
  uint16_t header_size;
  uint64_t files_size;
} fatbin_header;

typedef struct fatbin_entry {
  uint16_t kind;
  uint16_t version;
  uint32_t header_size;
  uint64_t padded_size;
} fatbin_entry;

/* Returns whether `length` bytes at `offset` lie within `size`, without overflow. */
static bool within(uint64_t offset, uint64_t length, uint64_t size) {
  return offset <= size && length <= size - offset;
}

static int truncated(const char *what, size_t size) {
  return cch__fail(CCH_EIMAGE, OPERATION,
                   "the image is truncated or corrupt: it has %zu bytes, and its %s reach beyond them", size, what);
}

/*
 * Returns whether a section has bytes in the file. Sections of some types have only a size. Some of these types are
 * CUDA's own, and occur in relocatable objects.
 */
static bool has_bytes(const Elf64_Shdr *section) {
  switch (section->sh_type) {
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

/* Returns whether a text or a table of names has the function that printf of kernels is compiled to. */
static bool names_printf(const void *text, size_t size) { return memmem(text, size, "vprintf", 7) != NULL; }

static int check_elf(bool *prints, const unsigned char *image, size_t size) {
  Elf64_Ehdr header;
  if (size < sizeof header)
    return truncated("ELF headers", size);
  memcpy(&header, image, sizeof header);
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != MACHINE_CUDA)
    return cch__fail(CCH_EIMAGE, OPERATION,
                     "the image is an ELF file, but not of CUDA device code (machine %d, not %d)", header.e_machine,
                     MACHINE_CUDA);
  Elf64_Shdr section;
  if (header.e_shentsize != sizeof section || !within(header.e_shoff, sizeof section, size))
    return truncated("section headers", size);
  /* Numbers that do not fit into the ELF header are in the header of the first section. */
  memcpy(&section, image + header.e_shoff, sizeof section);
  uint64_t sections = header.e_shnum ? header.e_shnum : section.sh_size;
  uint32_t names = header.e_shstrndx == SHN_XINDEX ? section.sh_link : header.e_shstrndx;
  if (sections > size / sizeof section || names >= sections || !within(header.e_shoff, sections * sizeof section, size))
    return truncated("section headers", size);
  for (uint64_t i = 0; i < sections; i++) {
    memcpy(&section, image + header.e_shoff + i * sizeof section, sizeof section);
    if (has_bytes(&section) && !within(section.sh_offset, section.sh_size, size))
      return truncated("sections", size);
    *prints |= section.sh_type == SHT_STRTAB && names_printf(image + section.sh_offset, section.sh_size);
  }
  if (header.e_phnum != 0 && (header.e_phentsize != sizeof(Elf64_Phdr) ||
                              !within(header.e_phoff, (uint64_t)header.e_phnum * sizeof(Elf64_Phdr), size)))
    return truncated("program headers", size);
  for (size_t i = 0; i < header.e_phnum; i++) {
    Elf64_Phdr segment;
    memcpy(&segment, image + header.e_phoff + i * sizeof segment, sizeof segment);
    if (!within(segment.p_offset, segment.p_filesz, size))
      return truncated("segments", size);
  }
  return 0;
}

static int check_fatbin(const unsigned char *image, size_t size) {
  fatbin_header header;
  if (size < sizeof header)
    return truncated("headers", size);
  memcpy(&header, image, sizeof header);
  if (header.header_size < sizeof header || !within(header.header_size, header.files_size, size))
    return truncated("entries", size);
  uint64_t at = header.header_size, end = header.header_size + header.files_size;
  while (at < end) {
    fatbin_entry entry;
    if (!within(at, sizeof entry, end))
      return truncated("entries", size);
    memcpy(&entry, image + at, sizeof entry);
    if (entry.header_size < sizeof entry || !within(at, entry.header_size, end) ||
        !within(at + entry.header_size, entry.padded_size, end))
      return truncated("entries", size);
    at += entry.header_size + entry.padded_size;
  }
  return 0;
}

/* PTX begins with a .version directive, after white space and comments. */
static bool begins_as_ptx(const char *text, size_t size) {
  size_t i = 0;
  while (i < size) {
    if (strchr(" \t\r\n", text[i]) != NULL && text[i] != '\0') {
      i++;
    } else if (i + 1 < size && text[i] == '/' && text[i + 1] == '/') {
      while (i < size && text[i] != '\n')
        i++;
    } else if (i + 1 < size && text[i] == '/' && text[i + 1] == '*') {
      i += 2;
      while (i + 1 < size && !(text[i] == '*' && text[i + 1] == '/'))
        i++;
      i += 2;
    } else {
      return size - i >= 8 && memcmp(text + i, ".version", 8) == 0;
    }
  }
  return false;
}

int cch__image_check(cch__format *out, bool *prints, const void *image, size_t size) {
  uint32_t magic = 0;
  *prints = false;
  if (image != NULL && size >= sizeof magic)
    memcpy(&magic, image, sizeof magic);
  if (size >= SELFMAG && image != NULL && memcmp(image, ELFMAG, SELFMAG) == 0) {
    *out = CCH__CUBIN;
    return check_elf(prints, image, size);
  }
  if (magic == FATBIN_MAGIC) {
    *out = CCH__FATBIN;
    *prints = true; /* its entries can be compressed */
    return check_fatbin(image, size);
  }
  if (image != NULL && begins_as_ptx(image, size)) {
    *out = CCH__PTX;
    *prints = names_printf(image, size);
    /* One NUL may end the text. The driver would stop at an earlier NUL. */
    const char *end = memchr(image, '\0', size);
    if (end != NULL && (size_t)(end - (const char *)image) != size - 1)
      return cch__fail(CCH_EIMAGE, OPERATION, "the PTX has a NUL byte at offset %zu of %zu",
                       (size_t)(end - (const char *)image), size);
    return 0;
  }
  return cch__fail(CCH_EIMAGE, OPERATION, "the %zu bytes are not a cubin, a fatbin or PTX", size);
}
