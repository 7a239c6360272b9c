/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Libraries, and the checks of images before they reach the driver. A driver reads any offset that an image's headers
 * contain. Here, each image lies in a heap block of exactly its size, so a sanitizer reports a read beyond its end.
 */
#include "check.h"

#include <elf.h>

static int load(const void *image, size_t size) {
  cch_library *library = NULL;
  void *exact = calloc(size ? size : 1, 1);
  if (size)
    memcpy(exact, image, size);
  int status = cch_library_load(&library, exact, size);
  free(exact); /* freed before the library is used, because the library must not need the image after the call */
  CHECK((status == 0) == (library != NULL));
  cch_library_unref(library);
  return status;
}

/* PTX would need a NUL at its end, or could not have one, or its text would be used after the call. */
static void ptx_needs_no_nul(void) {
  OK(load(check_ptx, strlen(check_ptx)));
  OK(load(check_ptx, strlen(check_ptx) + 1));
  OK(load(".version 8.0", strlen(".version 8.0")));
  OK(load("\n\t /* .entry */ // x\n.version 8.0\n", strlen("\n\t /* .entry */ // x\n.version 8.0\n")));
}

/* Text that contains a NUL would load, without the part after the NUL. */
static void ptx_with_a_nul_inside_is_refused(void) {
  char text[] = ".version 8.0\n.target sm_70\n.visible .entry k()\n{ ret; }\n";
  text[20] = '\0';
  FAILS(CCH_EIMAGE, load(text, sizeof text));
  CHECK_HAS(check_error()->message, "20");
  char two[] = ".version 8.0\n\0";
  FAILS(CCH_EIMAGE, load(two, sizeof two));
}

/* Bytes of no known format would reach the driver, which would treat them as code. */
static void other_bytes_are_refused(void) {
  cch_library *library = NULL;
  FAILS(CCH_EIMAGE, load("", 0));
  FAILS(CCH_EIMAGE, load("hello, world", 12));
  FAILS(CCH_EIMAGE, load("// a comment, and no more", 25));
  FAILS(CCH_EIMAGE, load("/* a comment that does not end", 30));
  FAILS(CCH_EIMAGE, load("/*/", 3));
  FAILS(CCH_EIMAGE, load("/", 1));
  FAILS(CCH_EIMAGE, load(".versio", 7));
  FAILS(CCH_EIMAGE, load(ELFMAG, 4));
  FAILS(CCH_EIMAGE, load(ELFMAG, 5));
  FAILS(CCH_EIMAGE, load("\x50\xed\x55\xba", 4));
  /* The wrapper of a fatbin, which has pointers instead of the data. */
  FAILS(CCH_EIMAGE, load("\xb1\x43\x62\x46\x01\x00\x00\x00", 8));
  FAILS(CCH_EINVAL, cch_library_load(&library, NULL, 0));
  FAILS(CCH_EINVAL, cch_library_load(&library, NULL, 100));
  CHECK(library == NULL);
  CHECK_EQ(sim.calls("cuLibraryLoadData"), 0);
}

enum { ELF_SIZE = 1024 };

/* Writes the headers of a cubin: two segments, and five sections, one of them without bytes in the file. */
static void make_elf(unsigned char *image) {
  memset(image, 0x55, ELF_SIZE);
  Elf64_Ehdr header = {
      .e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
      .e_type = ET_EXEC,
      .e_machine = 190,
      .e_version = EV_CURRENT,
      .e_ehsize = sizeof header,
      .e_phoff = sizeof header,
      .e_phentsize = sizeof(Elf64_Phdr),
      .e_phnum = 2,
      .e_shoff = ELF_SIZE - 5 * sizeof(Elf64_Shdr),
      .e_shentsize = sizeof(Elf64_Shdr),
      .e_shnum = 5,
      .e_shstrndx = 1,
  };
  Elf64_Phdr segments[2] = {
      {.p_type = PT_LOAD, .p_offset = 0, .p_filesz = ELF_SIZE, .p_memsz = 1 << 20},
      {.p_type = PT_LOAD, .p_offset = 256, .p_filesz = 100},
  };
  Elf64_Shdr sections[5] = {
      {.sh_type = SHT_NULL},
      {.sh_type = SHT_STRTAB, .sh_offset = 256, .sh_size = 64},
      {.sh_type = SHT_PROGBITS, .sh_offset = 320, .sh_size = header.e_shoff - 320},
      {.sh_type = SHT_NOBITS, .sh_offset = ELF_SIZE, .sh_size = 1 << 30},
      {.sh_type = SHT_PROGBITS, .sh_offset = ELF_SIZE - 1, .sh_size = 1},
  };
  memcpy(image, &header, sizeof header);
  memcpy(image + header.e_phoff, segments, sizeof segments);
  memcpy(image + header.e_shoff, sections, sizeof sections);
}

enum { FATBIN_SIZE = 16 + 2 * (64 + 128) };

/* Writes a fatbin with two entries. */
static void make_fatbin(unsigned char *image) {
  memset(image, 0x33, FATBIN_SIZE);
  struct {
    uint32_t magic;
    uint16_t version, header_size;
    uint64_t size;
  } header = {0xBA55ED50u, 1, 16, FATBIN_SIZE - 16};
  struct {
    uint16_t kind, version;
    uint32_t header_size;
    uint64_t size;
  } entry = {2, 0x101, 64, 128};
  memcpy(image, &header, sizeof header);
  memcpy(image + 16, &entry, sizeof entry);
  memcpy(image + 16 + 64 + 128, &entry, sizeof entry);
}

/* A relocatable object, whose sections without bytes in the file have CUDA's own types, would be refused. */
static void relocatable_objects_load(void) {
  static const uint32_t types[] = {0x70000007, 0x7000000a, 0x70000015};
  const size_t third = ELF_SIZE - 2 * sizeof(Elf64_Shdr), type_at = third + offsetof(Elf64_Shdr, sh_type);
  unsigned char elf[ELF_SIZE];
  for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
    make_elf(elf);
    memcpy(elf + type_at, &types[i], sizeof types[i]);
    OK(load(elf, sizeof elf));
  }
  const uint32_t constant = 0x70000064; /* a section type with bytes in the file */
  memcpy(elf + type_at, &constant, sizeof constant);
  FAILS(CCH_EIMAGE, load(elf, sizeof elf));
}

/* Sizes near 2**64 would overflow in the check and pass it. */
static void huge_numbers_do_not_overflow(void) {
  static const uint64_t huge[] = {UINT64_MAX, UINT64_MAX - 15, UINT64_MAX - 63, 1ull << 63, UINT64_MAX - ELF_SIZE};
  static const size_t in_elf[] = {offsetof(Elf64_Ehdr, e_shoff), offsetof(Elf64_Ehdr, e_phoff),
                                  sizeof(Elf64_Ehdr) + offsetof(Elf64_Phdr, p_filesz),
                                  ELF_SIZE - 3 * sizeof(Elf64_Shdr) + offsetof(Elf64_Shdr, sh_size)};
  static const size_t in_fatbin[] = {8, 24};
  unsigned char image[ELF_SIZE];
  for (size_t i = 0; i < sizeof huge / sizeof *huge; i++) {
    for (size_t j = 0; j < sizeof in_elf / sizeof *in_elf; j++) {
      make_elf(image);
      memcpy(image + in_elf[j], &huge[i], 8);
      FAILS(CCH_EIMAGE, load(image, ELF_SIZE));
    }
    for (size_t j = 0; j < sizeof in_fatbin / sizeof *in_fatbin; j++) {
      make_fatbin(image);
      memcpy(image + in_fatbin[j], &huge[i], 8);
      FAILS(CCH_EIMAGE, load(image, FATBIN_SIZE));
    }
  }
  CHECK_EQ(sim.calls("cuLibraryLoadData"), 0);
}

static uint32_t next_random(void) {
  static uint32_t state = 2463534242u;
  state ^= state << 13;
  state ^= state >> 17;
  state ^= state << 5;
  return state;
}

static void load_damaged(const unsigned char *image, size_t size) {
  unsigned char damaged[ELF_SIZE];
  memcpy(damaged, image, size);
  for (uint32_t n = 1 + next_random() % 4; n > 0; n--) {
    /*
     * Half of the damaged bytes are in the headers, which the checks read. Half of the values are very small or very
     * large.
     */
    static const unsigned char values[] = {0x00, 0x01, 0x7f, 0x80, 0xff};
    size_t at = next_random() % (next_random() % 2 ? size : 128);
    damaged[at] = next_random() % 2 ? values[next_random() % sizeof values] : (unsigned char)next_random();
  }
  size_t rest = next_random() % 4 ? size : next_random() % (size + 1);
  int status = load(damaged, rest);
  CHECK(status == 0 || status == CCH_EIMAGE);
}

/* Damaged images would be read beyond their end, by the check or by the driver. */
static void damaged_images_stay_within_bounds(void) {
  unsigned char elf[ELF_SIZE], fatbin[FATBIN_SIZE], ptx[ELF_SIZE], noise[ELF_SIZE];
  size_t ptx_size = strlen(check_ptx);
  make_elf(elf);
  make_fatbin(fatbin);
  CHECK(ptx_size <= sizeof ptx);
  memcpy(ptx, check_ptx, ptx_size);
  for (int i = 0; i < 20000; i++) {
    load_damaged(elf, sizeof elf);
    load_damaged(fatbin, sizeof fatbin);
    load_damaged(ptx, ptx_size);
    for (size_t j = 0; j < 64; j++)
      noise[j] = (unsigned char)next_random();
    load_damaged(noise, 64 + next_random() % 64);
  }
}

/* A foreign library would be unloaded by us, or lose its owner. */
static void foreign_library_keeps_its_owner(void) {
  int one = 1;
  CUlibrary raw;
  cch_library *library, *shared;
  OK(cch_driver_init());
  CHECK_EQ(driver.cuLibraryLoadData(&raw, check_ptx, NULL, NULL, 0, NULL, NULL, 0), 0);
  OK(cch_library_wrap(&library, raw, &one, check_release));
  OK(cch_library_wrap(&shared, raw, NULL, NULL));
  CHECK(shared != library); /* not the same box: a borrowed handle can be reused for another library */
  CHECK_PTR(cch_library_raw(library), raw);
  CHECK_AFTER(cch_library_unref(shared), check_released, 0);
  CHECK_AFTER(cch_library_unref(library), check_released, 1);
  CHECK_EQ(driver.cuLibraryUnload(raw), 0);
  FAILS(CCH_EINVAL, cch_library_wrap(&library, NULL, NULL, NULL));
}

int main(void) {
  check_open();
  RUN(ptx_needs_no_nul);
  RUN(ptx_with_a_nul_inside_is_refused);
  RUN(other_bytes_are_refused);
  RUN(relocatable_objects_load);
  RUN(huge_numbers_do_not_overflow);
  RUN(damaged_images_stay_within_bounds);
  RUN(foreign_library_keeps_its_owner);
  return 0;
}
