/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDACORE_NATIVE_SHARED_H
#define CUDACORE_NATIVE_SHARED_H

/*
 * What several threads can change at once. With a GIL, that guards all of it, and these are ordinary operations. On
 * CPython without a GIL, they are atomic, or hold the lock of an object (its critical section) or of a table.
 *
 * While such a lock is held, no Python code runs and the driver is not called. So objects are released afterwards.
 */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdbool.h>
#include <stddef.h>

#ifdef Py_GIL_DISABLED
#include <stdatomic.h>
typedef atomic_size_t shared_word;
/*
 * What each thread writes for each launch is not shared by all threads: there is one word or lock for each lane, in a
 * cache line of its own. lane_of_thread() is below LANES; few threads have the same one.
 */
enum { LANES = 16, CACHE_LINE = 64 };
unsigned lane_of_thread(void);
typedef PyMutex table_lock;
#define LOCK_OBJECT(object) Py_BEGIN_CRITICAL_SECTION((PyObject *)(object))
#define UNLOCK_OBJECT() Py_END_CRITICAL_SECTION()
#define LOCK_TABLE(lock) PyMutex_Lock(lock)
#define UNLOCK_TABLE(lock) PyMutex_Unlock(lock)
#else
typedef size_t shared_word;
typedef char table_lock;
#define LOCK_OBJECT(object) {
#define UNLOCK_OBJECT() }
#define LOCK_TABLE(lock) (void)(lock)
#define UNLOCK_TABLE(lock) (void)(lock)
#endif

/* ---- words ---- */

/* What another thread wrote before shared_set() is visible after shared_get(). */
static inline size_t shared_get(const shared_word *word) {
#ifdef Py_GIL_DISABLED
  return atomic_load_explicit((shared_word *)(uintptr_t)word, memory_order_acquire);
#else
  return *word;
#endif
}

static inline void shared_set(shared_word *word, size_t value) {
#ifdef Py_GIL_DISABLED
  atomic_store_explicit(word, value, memory_order_release);
#else
  *word = value;
#endif
}

/* Adds to a word; a number that is too large subtracts. Returns the new value. */
static inline size_t shared_add(shared_word *word, size_t number) {
#ifdef Py_GIL_DISABLED
  return atomic_fetch_add_explicit(word, number, memory_order_acq_rel) + number;
#else
  return *word += number;
#endif
}

/*
 * The users of something that can be closed: a bit that says that it is open, one that says that a user has taken it
 * for itself and will open it again, and the number of users above them. A word of zeros is closed. Whoever gets `true`
 * from use_end() or use_close(), or `false` from use_give(), was the last user, and releases it.
 */
enum { USE_OPEN = 1, USE_TAKEN = 2, USE_USER = 4 };

static inline bool use_is_open(const shared_word *uses) { return (shared_get(uses) & USE_OPEN) != 0; }

/* Adds a user, unless it is closed; then returns false. */
static inline bool use_begin(shared_word *uses) {
#ifdef Py_GIL_DISABLED
  size_t known = atomic_load_explicit(uses, memory_order_relaxed);
  do
    if ((known & USE_OPEN) == 0)
      return false;
  while (!atomic_compare_exchange_weak_explicit(uses, &known, known + USE_USER, memory_order_acquire,
                                                memory_order_relaxed));
#else
  if ((*uses & USE_OPEN) == 0)
    return false;
  *uses += USE_USER;
#endif
  return true;
}

static inline bool use_end(shared_word *uses) { return shared_add(uses, (size_t)0 - USE_USER) == 0; }

static inline bool use_close(shared_word *uses) {
#ifdef Py_GIL_DISABLED
  size_t known = atomic_fetch_and_explicit(uses, ~(size_t)(USE_OPEN | USE_TAKEN), memory_order_acq_rel);
#else
  size_t known = *uses;
  *uses &= ~(size_t)(USE_OPEN | USE_TAKEN);
#endif
  return known == USE_OPEN;
}

/* Replaces the word, if it has the value that is expected. */
static inline bool shared_replace(shared_word *word, size_t expected, size_t value) {
#ifdef Py_GIL_DISABLED
  return atomic_compare_exchange_strong(word, &expected, value);
#else
  if (*word != expected)
    return false;
  *word = value;
  return true;
#endif
}

/* Takes something that is open and has no users. It is closed for all others until use_give(). Else returns false. */
static inline bool use_take(shared_word *uses) { return shared_replace(uses, USE_OPEN, USE_TAKEN + USE_USER); }

/* Opens it again, unless it was closed meanwhile. */
static inline bool use_give(shared_word *uses) {
  return shared_replace(uses, USE_TAKEN + USE_USER, USE_OPEN) || !use_end(uses);
}

/* ---- fields that are objects ---- */

/*
 * Stores an object in a field of another object, and returns the previous one. Takes over the reference to `value`,
 * which can be NULL, and returns a reference.
 */
static inline PyObject *field_swap(void *self, PyObject **field, PyObject *value) {
  PyObject *old;
  (void)self;
  LOCK_OBJECT(self);
  old = *field;
#ifdef Py_GIL_DISABLED
  __atomic_store_n(field, value, __ATOMIC_RELEASE); /* a PyMemberDef reads the field without the lock */
#else
  *field = value;
#endif
  UNLOCK_OBJECT();
  return old;
}

/* Returns a new reference to the object in a field; NULL without an exception if there is none. */
static inline PyObject *field_get(void *self, PyObject **field) {
  PyObject *value;
  (void)self;
  LOCK_OBJECT(self);
  value = *field;
  Py_XINCREF(value);
  UNLOCK_OBJECT();
  return value;
}

/*
 * Keeps a value that was computed for a field, unless another thread was faster. Takes over the reference to `made`;
 * NULL does nothing. Returns a new reference to the value that is kept.
 */
static inline PyObject *field_keep(void *self, PyObject **field, PyObject *made) {
  PyObject *kept;
  if (made == NULL)
    return NULL;
  (void)self;
  LOCK_OBJECT(self);
  kept = *field;
  if (kept == NULL)
    *field = kept = Py_NewRef(made);
  Py_INCREF(kept);
  UNLOCK_OBJECT();
  Py_DECREF(made);
  return kept;
}

/* Returns a new reference to a value in a dict; NULL if there is none, and for a key that cannot be hashed. */
static inline PyObject *dict_get(PyObject *dict, PyObject *key) {
  PyObject *value;
#ifdef Py_GIL_DISABLED
  if (PyDict_GetItemRef(dict, key, &value) < 0)
    PyErr_Clear();
#else
  value = PyDict_GetItemWithError(dict, key);
  if (value != NULL)
    Py_INCREF(value);
  else
    PyErr_Clear();
#endif
  return value;
}

/* ---- objects in tables that keep nothing alive ---- */

/* Prepares an object for try_ref(). Call it before another thread can see the object. */
static inline void enable_try_ref(PyObject *object) {
#ifdef Py_GIL_DISABLED
  PyUnstable_EnableTryIncRef(object);
#else
  (void)object;
#endif
}

/* Takes a reference, unless the destruction of the object has begun; then returns false. */
static inline bool try_ref(PyObject *object) {
#ifdef Py_GIL_DISABLED
  return PyUnstable_TryIncRef(object) != 0;
#else
  if (Py_REFCNT(object) == 0)
    return false;
  Py_INCREF(object);
  return true;
#endif
}

#endif
