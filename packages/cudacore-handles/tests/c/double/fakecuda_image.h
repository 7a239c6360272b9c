/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FAKECUDA_IMAGE_H
#define FAKECUDA_IMAGE_H

/*
 * How the double reads module images. Like the driver it is not told an image's length and trusts the headers, so
 * that an image which promises more than it has is read out of bounds here, where a sanitizer sees it.
 */

#include "double/fakecuda_internal.h"

#include <ctype.h>
#include <elf.h>

static volatile unsigned char image_sink;

static void image_read(const unsigned char *bytes, uint64_t size) {
  unsigned char sum = 0;
  for (uint64_t i = 0; i < size; i++)
    sum = (unsigned char)(sum + bytes[i]);
  image_sink = sum;
}

/* Some of CUDA's own types of section are like SHT_NOBITS: .nv.global, .nv.shared, .nv.shared.reserved. */
static int elf_has_bytes(uint32_t type) {
  return type != SHT_NULL && type != SHT_NOBITS && type != 0x70000007 && type != 0x7000000a && type != 0x70000015;
}

/* Reads the tables of an ELF image and whatever they point at. */
static void image_read_elf(const unsigned char *image) {
  Elf64_Ehdr header;
  memcpy(&header, image, sizeof header);
  for (unsigned i = 0; i < header.e_phnum; i++) {
    Elf64_Phdr segment;
    memcpy(&segment, image + header.e_phoff + (uint64_t)i * header.e_phentsize, sizeof segment);
    image_read(image + segment.p_offset, segment.p_filesz);
  }
  if (!header.e_shoff)
    return;
  Elf64_Shdr section;
  uint64_t count = header.e_shnum;
  if (!count) { /* more sections than e_shnum can say */
    memcpy(&section, image + header.e_shoff, sizeof section);
    count = section.sh_size;
  }
  memcpy(&section, image + header.e_shoff + (uint64_t)header.e_shstrndx * header.e_shentsize, sizeof section);
  for (uint64_t i = 0; i < count; i++) {
    memcpy(&section, image + header.e_shoff + i * header.e_shentsize, sizeof section);
    if (elf_has_bytes(section.sh_type))
      image_read(image + section.sh_offset, section.sh_size);
  }
}

#define FATBIN_MAGIC 0xBA55ED50u

struct fatbin_header {
  uint32_t magic;
  uint16_t version, header_size;
  uint64_t size;
};

struct fatbin_entry {
  uint16_t kind, version;
  uint32_t header_size;
  uint64_t size;
};

/* Reads all entries of a fatbin. */
static void image_read_fatbin(const unsigned char *image) {
  struct fatbin_header header;
  memcpy(&header, image, sizeof header);
  uint64_t at = header.header_size, end = at + header.size;
  while (at < end) {
    struct fatbin_entry entry;
    memcpy(&entry, image + at, sizeof entry);
    if (entry.header_size < sizeof entry)
      return;
    image_read(image + at, entry.header_size + entry.size);
    at += entry.header_size + entry.size;
  }
}

/* A copy of PTX with its comments blanked. */
static char *ptx_copy(const char *text) {
  size_t size = strlen(text) + 1;
  char *copy = malloc(size);
  if (!copy)
    return NULL;
  memcpy(copy, text, size);
  for (char *p = copy; *p; p++) {
    char *end = NULL;
    if (p[0] == '/' && p[1] == '/')
      end = strchr(p, '\n');
    else if (p[0] == '/' && p[1] == '*')
      end = (end = strstr(p + 2, "*/")) ? end + 2 : NULL;
    else
      continue;
    if (!end)
      end = copy + size - 1;
    memset(p, ' ', (size_t)(end - p));
    p = end - 1;
  }
  return copy;
}

static int ptx_is_name(char c) { return isalnum((unsigned char)c) || c == '_' || c == '$' || c == '%'; }

/* The next kernel's name in commentless PTX, from *cursor on, which moves behind the name. NULL at the end. */
static const char *ptx_next_kernel(const char **cursor, size_t *length) {
  for (const char *p = *cursor; (p = strstr(p, ".entry")); p++) {
    const char *name = p + strlen(".entry");
    if (!isspace((unsigned char)*name))
      continue;
    name += strspn(name, " \t\r\n");
    *length = 0;
    while (ptx_is_name(name[*length]))
      ++*length;
    *cursor = name + *length;
    return name;
  }
  return NULL;
}

/* Bytes of the type that `text` begins with, as in ".u64", or 0. */
static size_t ptx_type_size(const char *text) {
  if (strncmp(text, ".texref", 7) == 0 || strncmp(text, ".surfref", 8) == 0 || strncmp(text, ".samplerref", 11) == 0)
    return 8;
  text++;
  size_t packed = 1;
  if (strncmp(text, "bf", 2) == 0)
    text++;
  if (!strchr("bsuf", *text) || !isdigit((unsigned char)text[1]))
    return 0;
  char *end;
  unsigned long bits = strtoul(text + 1, &end, 10);
  if (*end == 'x')
    packed = strtoul(end + 1, &end, 10);
  return ptx_is_name(*end) ? 0 : packed * bits / 8;
}

/* Reads one parameter's declaration, up to a comma or `end`. Returns its bytes. */
static size_t ptx_parameter(const char *text, const char *end, size_t *align) {
  size_t element = 0, count = 1;
  *align = 1;
  for (; text < end && *text != ','; text++) {
    if (*text == '[') {
      count = strtoul(text + 1, NULL, 10);
    } else if (*text == '.' && !element) { /* behind the type come attributes of what a pointer points at */
      if (strncmp(text, ".align", 6) == 0)
        *align = strtoul(text + 6, NULL, 10);
      else
        element = ptx_type_size(text);
    }
  }
  if (*align < element || *align == 0)
    *align = element ? element : 1;
  return element * count;
}

/* Reads the parameters that follow a kernel's name. */
static struct signature *ptx_signature(const char *text) {
  text += strspn(text, " \t\r\n");
  const char *end = *text == '(' ? strchr(text, ')') : NULL;
  size_t count = 0;
  for (const char *p = text; end && (p = strstr(p, ".param")) && p < end; p++)
    count++;
  struct signature *signature = calloc(1, sizeof *signature + count * sizeof *signature->params);
  if (!signature)
    return NULL;
  const char *p = text;
  for (; signature->count < count; signature->count++) {
    p = strstr(p, ".param") + strlen(".param");
    size_t align, size = ptx_parameter(p, end, &align);
    signature->end = (signature->end + align - 1) / align * align;
    signature->params[signature->count].offset = signature->end;
    signature->params[signature->count].size = size;
    signature->end += size;
  }
  return signature;
}

#endif
