/* SPDX-License-Identifier: Apache-2.0 */
/* The state of this process for other processes. */
#include "sim/driver/base/process_page.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <dirent.h>
#include <new>
#include <thread>
#include <unistd.h>

namespace sim {

ProcessPage *own_page = nullptr;

namespace {

/* The first bytes of the file of the page. Other files of a simulator do not begin with them. */
constexpr uint64_t magic = 0x6b70657661735f31;
constexpr uint64_t page_size = 4096;
SharedFile *own_file = nullptr; /* never freed, because other threads can be in a call when the process ends */

} // namespace

void make_own_page() {
  if (own_file != nullptr || (own_file = SharedFile::create(page_size).release()) == nullptr)
    return;
  own_page = new (own_file->at(0)) ProcessPage{magic, getpid(), {0}, {0}, {0}};
}

void leave_own_page() { own_page = nullptr; }

void wait_until_unlocked() {
  while (own_page->state.load() != 0) {
    own_page->calls.fetch_sub(1);
    while (own_page->state.load() != 0)
      std::this_thread::sleep_for(std::chrono::microseconds(500));
    own_page->calls.fetch_add(1);
  }
}

std::unique_ptr<SharedFile> find_page(int process, ProcessPage *&out) {
  char path[32];
  std::snprintf(path, sizeof path, "/proc/%d/fd", process);
  DIR *folder = process > 0 ? opendir(path) : nullptr;
  std::unique_ptr<SharedFile> found;
  while (dirent *entry = folder != nullptr && found == nullptr ? readdir(folder) : nullptr) {
    char *end = nullptr;
    int descriptor = static_cast<int>(std::strtol(entry->d_name, &end, 10));
    if (*end != '\0')
      continue;
    ProcessPage *page = nullptr;
    uint64_t begins = 0;
    std::unique_ptr<SharedFile> file = SharedFile::open(process, descriptor);
    if (file == nullptr || file->size() != page_size || !file->read(0, &begins, sizeof begins) || begins != magic ||
        !file->map(0, page_size))
      continue;
    page = reinterpret_cast<ProcessPage *>(file->at(0));
    if (page->process != process) /* the descriptor was inherited, so the page is the parent's */
      continue;
    out = page;
    found = std::move(file);
  }
  if (folder != nullptr)
    closedir(folder);
  return found;
}

} // namespace sim
