/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the parameters of nodes go: into a new node of a graph, by the methods that GraphDefinition and GraphNode have
 * in common; into the capture of a stream; into a node that there is; into a node of an executable graph.
 */
#include "base/failure.h"
#include "graph/node_kinds.h"

#include <stdlib.h>

enum { INLINE_DEPENDENCIES = 16 };

PyObject *raise_failed(const state *st, int status, const char *what, Py_ssize_t place) {
  PyObject *result = PyObject_CallFunction(st->faces.node_failed, "Nsn", failure_status(status), what, place);
  Py_XDECREF(result); /* it raises */
  return NULL;
}

PyObject *raise_node_failed(const state *st, int status, const node_kind *kind, Py_ssize_t place) {
  return raise_failed(st, status, node_kind_name(kind), place);
}

/* ---- adding ---- */

/* Adds a node behind others of the graph. Takes the parameters over, also on failure. */
static PyObject *add(state *st, const node_kind *kind, node_params *params, cch_graph *graph,
                     cch_graph_node *const *dependencies, size_t count) {
  PyObject *result = NULL;
  if (node_params_check(st, params, graph) == 0) {
    const cch_node_spec spec = {.size = sizeof spec,
                                .type = params->type,
                                .params = node_params_of(params),
                                .bundle = params->bundle,
                                .dependencies = dependencies,
                                .dependency_count = count};
    cch_graph_node *node = NULL;
    node_params_done(params); /* at once: another thread could use the condition, too */
    graph_lock lock = graph_lock_take(graph, node_params_child(params));
    int status;
    Py_BEGIN_ALLOW_THREADS;
    status = cch_graph_add(&node, graph, &spec);
    Py_END_ALLOW_THREADS;
    graph_lock_give(lock);
    if (status == 0) {
      result = node_face(st, node, params->class);
    } else {
      node_params_undone(params);
      raise_node_failed(st, status, kind, NO_PLACE);
    }
  }
  node_params_drop(params);
  owners_drain(st);
  return result;
}

static PyObject *add_kind(const node_kind *kind, PyObject *self, PyObject *const *arguments, Py_ssize_t count,
                          PyObject *keywords) {
  state *st = (state *)((handle *)self)->st;
  if (st == NULL)
    return handle_hold(self);
  node_params params = {0};
  unsigned char scratch[SCRATCH_SIZE];
  if (node_params_read(st, kind, arguments, count, keywords, scratch, &params) < 0) {
    node_params_drop(&params);
    return NULL;
  }
  if (PyType_IsSubtype(Py_TYPE(self), st->node_type)) {
    cch_graph_node *after = node_box(st, self, "self");
    if (after != NULL)
      return add(st, kind, &params, cch_graph_node_graph(after), &after, 1);
    node_params_drop(&params);
    return NULL;
  }
  cch_graph *graph = handle_use(self);
  if (graph == NULL) {
    node_params_drop(&params);
    return NULL;
  }
  PyObject *result = add(st, kind, &params, graph, NULL, 0);
  handle_done(self);
  return result;
}

/* Reads nodes that must be in a graph: it, if known, else that of the first one. -1 with an exception. */
static int read_nodes(const state *st, PyObject *const *nodes, Py_ssize_t count, cch_graph **graph,
                      cch_graph_node **out) {
  for (Py_ssize_t i = 0; i < count; i++) {
    if ((out[i] = node_box(st, nodes[i], "nodes")) == NULL)
      return -1;
    cch_graph *of = cch_graph_node_graph(out[i]);
    if (*graph == NULL)
      *graph = of;
    if (of != *graph) {
      PyErr_Format(PyExc_ValueError, "%R is a node of another graph; nodes depend on nodes of their own graph",
                   nodes[i]);
      return -1;
    }
  }
  return 0;
}

const node_kind *node_kind_named(const char *name) {
  PyObject *text = PyUnicode_FromString(name);
  const node_kind *kind = text != NULL ? node_kind_find(text) : NULL;
  Py_XDECREF(text);
  return kind;
}

static const node_kind *empty_kind(void) {
  static const node_kind *kind; /* guarded by the GIL */
  return kind != NULL ? kind : (kind = node_kind_named("empty"));
}

int compare_boxes(const void *a, const void *b) {
  const uintptr_t left = (uintptr_t)*(void *const *)a, right = (uintptr_t)*(void *const *)b;
  return (left > right) - (left < right);
}

size_t drop_doubles(void *items, size_t count, size_t size, int (*compare)(const void *, const void *)) {
  size_t ascending = 1; /* as things often are that were made one after another */
  while (ascending < count && compare((char *)items + (ascending - 1) * size, (char *)items + ascending * size) < 0)
    ascending++;
  if (ascending >= count)
    return count;
  qsort(items, count, size, compare);
  char *last = items; /* of those that stay */
  for (size_t i = 1; i < count; i++) {
    const char *item = (const char *)items + i * size;
    if (compare(item, last) != 0)
      memmove(last += size, item, size);
  }
  return (size_t)(last - (char *)items) / size + 1;
}

/* An empty node behind the object, where that is a node, and all others. */
static PyObject *join(PyObject *self, PyObject *const *arguments, Py_ssize_t count) {
  state *st = (state *)((handle *)self)->st;
  if (st == NULL)
    return handle_hold(self);
  cch_graph_node *inside[INLINE_DEPENDENCIES], **nodes = inside;
  if (count + 1 > INLINE_DEPENDENCIES && (nodes = PyMem_Malloc((size_t)(count + 1) * sizeof *nodes)) == NULL)
    return PyErr_NoMemory();
  bool is_node = PyType_IsSubtype(Py_TYPE(self), st->node_type) != 0;
  cch_graph *graph = NULL;
  size_t own = 0;
  bool fine;
  if (is_node) {
    fine = read_nodes(st, &self, 1, &graph, nodes) == 0;
    own = 1;
  } else {
    fine = (graph = handle_use(self)) != NULL;
  }
  PyObject *result = NULL;
  if (fine && read_nodes(st, arguments, count, &graph, nodes + own) == 0) {
    size_t different = drop_doubles(nodes, (size_t)count + own, sizeof *nodes, compare_boxes);
    node_params params = {.type = CCH_NODE_EMPTY, .class = CCH_NODE_EMPTY};
    result = add(st, empty_kind(), &params, graph, nodes, different);
  }
  if (!is_node && fine)
    handle_done(self);
  if (nodes != inside)
    PyMem_Free(nodes);
  return result;
}

#define ADDER(name, c_name)                                                                                            \
  static PyObject *c_name(PyObject *self, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords) {          \
    static const node_kind *kind; /* guarded by the GIL */                                                             \
    if (kind == NULL && (kind = node_kind_named(name)) == NULL)                                                        \
      return NULL;                                                                                                     \
    return add_kind(kind, self, arguments, count, keywords);                                                           \
  }
ADDER("launch", add_launch)
ADDER("memcpy", add_memcpy)
ADDER("memset", add_memset)
ADDER("callback", add_callback)
ADDER("embed", add_embed)
ADDER("empty", add_empty)
ADDER("record", add_record)
ADDER("wait", add_wait)
ADDER("allocate", add_allocate)
ADDER("deallocate", add_deallocate)
ADDER("if_then", add_if_then)
ADDER("if_else", add_if_else)
ADDER("while_loop", add_while_loop)
ADDER("switch", add_switch)
#undef ADDER

#define ADDER(name, c_name, doc) {name, FASTCALL(c_name), METH_FASTCALL | METH_KEYWORDS, doc}
#define OWNERS_NOTE                                                                                                    \
  "A Buffer is kept alive by the graph, and by what is made from it. An address that is an int is kept by nobody,\n"   \
  "unless an owner is named."
#define COMMON                                                                                                         \
  ADDER("launch", add_launch,                                                                                          \
        "launch($self, /, config, kernel, *args)\n--\n\n"                                                              \
        "Add a kernel node (cuGraphAddKernelNode): on a node, behind it.\n"                                            \
        "\n"                                                                                                           \
        "The arguments are packed as :func:`launch` packs them; what they point into is kept alive by the graph, and " \
        "by\n"                                                                                                         \
        "what is made from it. All of the configuration is kept: clusters, cooperative launches, the priority.\n"      \
        "\n"                                                                                                           \
        "Parameters\n"                                                                                                 \
        "----------\n"                                                                                                 \
        "config : LaunchConfig\n"                                                                                      \
        "    With how many threads, and how.\n"                                                                        \
        "kernel : Kernel\n"                                                                                            \
        "    What to launch.\n"                                                                                        \
        "*args\n"                                                                                                      \
        "    Its arguments.\n"                                                                                         \
        "\n"                                                                                                           \
        "Returns\n"                                                                                                    \
        "-------\n"                                                                                                    \
        "KernelNode\n"                                                                                                 \
        "    The new node."),                                                                                          \
      ADDER("memcpy", add_memcpy,                                                                                      \
            "memcpy($self, /, dst, src, size, *, height=1, depth=1, dst_pitch=0, src_pitch=0, dst_height=0, "          \
            "src_height=0, dst_owner=None, src_owner=None)\n--\n\n"                                                    \
            "Add a copy (cuGraphAddMemcpyNode): on a node, behind it.\n"                                               \
            "\n"                                                                                                       \
            "It is made by the current device, or by a device of the memory that has access to all of it.\n"           \
            "\n"                                                                                                       \
            "The driver finds out where the operands are: on a device, on the host, or allocated by the graph "        \
            "itself.\n" OWNERS_NOTE "\n"                                                                               \
            "\n"                                                                                                       \
            "Parameters\n"                                                                                             \
            "----------\n"                                                                                             \
            "dst, src : Buffer or int\n"                                                                               \
            "    Where to copy to, and from.\n"                                                                        \
            "size : int\n"                                                                                             \
            "    Bytes; of a copy in more dimensions, bytes a row.\n"                                                  \
            "height, depth : int, optional\n"                                                                          \
            "    Rows a slice, and slices. Default 1.\n"                                                               \
            "dst_pitch, src_pitch : int, optional\n"                                                                   \
            "    Bytes from row to row. Default 0: `size`.\n"                                                          \
            "dst_height, src_height : int, optional\n"                                                                 \
            "    Rows from slice to slice. Default 0: `height`.\n"                                                     \
            "dst_owner, src_owner : object, optional\n"                                                                \
            "    What keeps an address alive.\n"                                                                       \
            "\n"                                                                                                       \
            "Returns\n"                                                                                                \
            "-------\n"                                                                                                \
            "MemcpyNode\n"                                                                                             \
            "    The new node."),                                                                                      \
      ADDER("memset", add_memset,                                                                                      \
            "memset($self, /, dst, value, width, height=1, pitch=0, *, dst_owner=None)\n--\n\n"                        \
            "Add a fill (cuGraphAddMemsetNode): on a node, behind it.\n"                                               \
            "\n" OWNERS_NOTE "\n"                                                                                      \
            "\n"                                                                                                       \
            "Parameters\n"                                                                                             \
            "----------\n"                                                                                             \
            "dst : Buffer or int\n"                                                                                    \
            "    What to fill.\n"                                                                                      \
            "value : int, scalar or bytes-like\n"                                                                      \
            "    An int is a byte, 0 to 255; or what has 1, 2 or 4 bytes, such as ``np.float32(1.5)``.\n"              \
            "width : int\n"                                                                                            \
            "    Values a row.\n"                                                                                      \
            "height : int, optional\n"                                                                                 \
            "    Rows. Default 1.\n"                                                                                   \
            "pitch : int, optional\n"                                                                                  \
            "    Bytes from row to row, where there are several.\n"                                                    \
            "dst_owner : object, optional\n"                                                                           \
            "    What keeps an address alive.\n"                                                                       \
            "\n"                                                                                                       \
            "Returns\n"                                                                                                \
            "-------\n"                                                                                                \
            "MemsetNode\n"                                                                                             \
            "    The new node."),                                                                                      \
      ADDER("callback", add_callback,                                                                                  \
            "callback($self, /, fn, *, user_data=None)\n--\n\n"                                                        \
            "Add a call of a function of the host (cuGraphAddHostNode): on a node, behind it.\n"                       \
            "\n"                                                                                                       \
            "The function must make no calls of CUDA. What it raises goes to ``sys.unraisablehook``. A function "      \
            "that\n"                                                                                                   \
            "refers to its own graph is never collected: refer to it weakly.\n"                                        \
            "\n"                                                                                                       \
            "Parameters\n"                                                                                             \
            "----------\n"                                                                                             \
            "fn : callable\n"                                                                                          \
            "    A Python function without arguments; or a function of ctypes of the type\n"                           \
            "    ``CFUNCTYPE(None, c_void_p)``, which is called without Python's lock.\n"                              \
            "user_data : int or bytes-like, optional\n"                                                                \
            "    The argument of a function of ctypes: an address, or bytes, of which the node has a copy.\n"          \
            "\n"                                                                                                       \
            "Returns\n"                                                                                                \
            "-------\n"                                                                                                \
            "HostCallbackNode\n"                                                                                       \
            "    The new node."),                                                                                      \
      ADDER("embed", add_embed,                                                                                        \
            "embed($self, /, child)\n--\n\n"                                                                           \
            "Add a copy of a graph as one node (cuGraphAddChildGraphNode): on a node, behind it.\n"                    \
            "\n"                                                                                                       \
            "Parameters\n"                                                                                             \
            "----------\n"                                                                                             \
            "child : GraphDefinition\n"                                                                                \
            "    The graph. Drivers take no memory nodes or conditional nodes in it.\n"                                \
            "\n"                                                                                                       \
            "Returns\n"                                                                                                \
            "-------\n"                                                                                                \
            "ChildGraphNode\n"                                                                                         \
            "    The new node."),                                                                                      \
      ADDER("record", add_record,                                                                                      \
            "record($self, /, event)\n--\n\n"                                                                          \
            "Add a node that records an event (cuGraphAddEventRecordNode): on a node, behind it.\n"                    \
            "\n"                                                                                                       \
            "Returns\n"                                                                                                \
            "-------\n"                                                                                                \
            "EventRecordNode\n"                                                                                        \
            "    The new node."),                                                                                      \
      ADDER("wait", add_wait,                                                                                          \
            "wait($self, /, event)\n--\n\n"                                                                            \
            "Add a node that waits for an event (cuGraphAddEventWaitNode): on a node, behind it.\n"                    \
            "\n"                                                                                                       \
            "Returns\n"                                                                                                \
            "-------\n"                                                                                                \
            "EventWaitNode\n"                                                                                          \
            "    The new node."),                                                                                      \
      ADDER("allocate", add_allocate,                                                                                  \
            "allocate($self, /, size, *, device=None, memory_type=GraphMemoryType.DEVICE, "                            \
            "peer_access=None)\n--\n\n"                                                                                \
            "Add an allocation (cuGraphAddMemAllocNode): on a node, behind it.\n"                                      \
            "\n"                                                                                                       \
            "Each launch allocates the memory, always at the same address: :attr:`AllocNode.dptr`.\n"                  \
            "\n"                                                                                                       \
            "Parameters\n"                                                                                             \
            "----------\n"                                                                                             \
            "size : int\n"                                                                                             \
            "    Bytes.\n"                                                                                             \
            "device : Device or int, optional\n"                                                                       \
            "    Whose memory. Default: the current device's.\n"                                                       \
            "memory_type : GraphMemoryType or str, optional\n"                                                         \
            "    What memory: ``\"device\"``, ``\"host\"`` or ``\"managed\"``. Default ``\"device\"``.\n"              \
            "peer_access : list of Device or int, optional\n"                                                          \
            "    Other devices that can use it.\n"                                                                     \
            "\n"                                                                                                       \
            "Returns\n"                                                                                                \
            "-------\n"                                                                                                \
            "AllocNode\n"                                                                                              \
            "    The new node."),                                                                                      \
      ADDER("deallocate", add_deallocate,                                                                              \
            "deallocate($self, /, dptr)\n--\n\n"                                                                       \
            "Add a node that frees what an allocation node gave (cuGraphAddMemFreeNode): on a node, behind it.\n"      \
            "\n"                                                                                                       \
            "Parameters\n"                                                                                             \
            "----------\n"                                                                                             \
            "dptr : int\n"                                                                                             \
            "    The address: :attr:`AllocNode.dptr`.\n"                                                               \
            "\n"                                                                                                       \
            "Returns\n"                                                                                                \
            "-------\n"                                                                                                \
            "FreeNode\n"                                                                                               \
            "    The new node."),                                                                                      \
      ADDER("if_then", add_if_then,                                                                                    \
            "if_then($self, /, condition)\n--\n\n"                                                                     \
            "Add a conditional node that runs its body when the condition is not 0: on a node, behind it.\n"           \
            "\n"                                                                                                       \
            "Needs a driver for CUDA 12.3.\n"                                                                          \
            "\n"                                                                                                       \
            "Parameters\n"                                                                                             \
            "----------\n"                                                                                             \
            "condition : GraphCondition\n"                                                                             \
            "    A condition of this graph, or of one that it is in; each is for one node.\n"                          \
            "\n"                                                                                                       \
            "Returns\n"                                                                                                \
            "-------\n"                                                                                                \
            "IfNode\n"                                                                                                 \
            "    The new node; its body is :attr:`IfNode.then`."),                                                     \
      ADDER("if_else", add_if_else,                                                                                    \
            "if_else($self, /, condition)\n--\n\n"                                                                     \
            "Add a conditional node with two bodies, for a condition that is not 0, and that is: on a node, behind "   \
            "it.\n"                                                                                                    \
            "\n"                                                                                                       \
            "Needs a driver for CUDA 12.8.\n"                                                                          \
            "\n"                                                                                                       \
            "Returns\n"                                                                                                \
            "-------\n"                                                                                                \
            "IfElseNode\n"                                                                                             \
            "    The new node; its bodies are :attr:`IfElseNode.then` and :attr:`IfElseNode.else_`."),                 \
      ADDER("while_loop", add_while_loop,                                                                              \
            "while_loop($self, /, condition)\n--\n\n"                                                                  \
            "Add a conditional node that runs its body again and again, while the condition is not 0: on a node, "     \
            "behind it.\n"                                                                                             \
            "\n"                                                                                                       \
            "Needs a driver for CUDA 12.3.\n"                                                                          \
            "\n"                                                                                                       \
            "Returns\n"                                                                                                \
            "-------\n"                                                                                                \
            "WhileNode\n"                                                                                              \
            "    The new node; its body is :attr:`WhileNode.body`."),                                                  \
      ADDER("switch", add_switch,                                                                                      \
            "switch($self, /, condition, count)\n--\n\n"                                                               \
            "Add a conditional node that runs the body whose number the condition has: on a node, behind it.\n"        \
            "\n"                                                                                                       \
            "Where the number is `count` or more, none runs. Needs a driver for CUDA 12.8.\n"                          \
            "\n"                                                                                                       \
            "Returns\n"                                                                                                \
            "-------\n"                                                                                                \
            "SwitchNode\n"                                                                                             \
            "    The new node; its bodies are :attr:`ConditionalNode.branches`.")

PyMethodDef graph_adders[] = {
    COMMON,
    ADDER("empty", add_empty,
          "empty($self, /)\n--\n\n"
          "Add a node that does nothing, without dependencies (cuGraphAddEmptyNode).\n"
          "\n"
          "Returns\n"
          "-------\n"
          "EmptyNode\n"
          "    The new node."),
    {"join", FASTCALL(join), METH_FASTCALL,
     "join($self, /, *nodes)\n--\n\n"
     "Add a node that does nothing, behind some nodes: what comes behind it comes behind them all.\n"
     "\n"
     "Returns\n"
     "-------\n"
     "EmptyNode\n"
     "    The new node."},
    {NULL, NULL, 0, NULL},
};

PyMethodDef node_adders[] = {
    COMMON,
    {"join", FASTCALL(join), METH_FASTCALL,
     "join($self, /, *nodes)\n--\n\n"
     "Add a node that does nothing, behind this node and others: what comes behind it comes behind them all.\n"
     "\n"
     "Returns\n"
     "-------\n"
     "EmptyNode\n"
     "    The new node."},
    {NULL, NULL, 0, NULL},
};
