/* What libmemlease_cuda.so offers: the calls of the CUDA runtime that the daemon and the client
   library need, behind one table. The library is loaded when a GPU array is asked for, so that one
   build of memlease runs with and without a driver; plain C, so that it can be built alone and
   serve a daemon that was linked elsewhere.

   The daemon's half is exports.cc, called by server/device/cuda_device_backend; the client's is
   imports.cc, called by client/cuda/cuda_importer. Both callers know no CUDA. Thread-safe. No
   call blocks on the GPU's work unless it says so. Those that return int32_t return 0 or a
   cudaError_t.

   Each leaves the calling thread's current context and capture mode as they were. Contexts are made
   on the device that the call names alone: the primary one, in which memory and events are. No call
   loses the capture of a graph, but for synchronize_device. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
/* NOLINTBEGIN(modernize-use-using, readability-identifier-naming): this is C */

/* Grows with every change of the table that an older caller would not survive. */
#define MEMLEASE_CUDA_ABI 7
#define MEMLEASE_CUDA_HANDLE_BYTES 64

/* What the callers tell apart; cudaError_t's numbers. */
#define MEMLEASE_CUDA_OK 0
#define MEMLEASE_CUDA_INVALID_VALUE 1
#define MEMLEASE_CUDA_OUT_OF_MEMORY 2
/* What every call answers in a child that was forked from a process that has used CUDA. */
#define MEMLEASE_CUDA_INITIALIZATION_ERROR 3
/* The driver is older than this one, with which every runtime of CUDA 13 works. */
#define MEMLEASE_CUDA_INSUFFICIENT_DRIVER 35
#define MEMLEASE_CUDA_OLDEST_DRIVER 13000
#define MEMLEASE_CUDA_NO_DEVICE 100
#define MEMLEASE_CUDA_INVALID_DEVICE 101
/* What opening another process's memory answers if the driver does not find it from here: these
   two, or INVALID_HANDLE. */
#define MEMLEASE_CUDA_DEVICE_UNINITIALIZED 201
#define MEMLEASE_CUDA_MAP_FAILED 205
#define MEMLEASE_CUDA_INVALID_HANDLE 400
#define MEMLEASE_CUDA_NOT_READY 600
#define MEMLEASE_CUDA_NOT_SUPPORTED 801
/* cudaErrorStreamCapture...: something is capturing a graph, and nothing is broken. */
#define MEMLEASE_CUDA_FIRST_OF_CAPTURE 900
#define MEMLEASE_CUDA_LAST_OF_CAPTURE 908

typedef struct memlease_cuda_handle {
  uint8_t bytes[MEMLEASE_CUDA_HANDLE_BYTES];
} memlease_cuda_handle;

typedef struct memlease_cuda_device {
  uint8_t uuid[16];
  char name[256];
  uint64_t total_bytes;
  int32_t ordinal; /* in this process; CUDA_VISIBLE_DEVICES counts */
  int32_t ipc;     /* can share memory with other processes */
} memlease_cuda_device;

/* As many bytes of each row, which is `pitch` bytes behind the one before on either side. */
typedef struct memlease_cuda_rows {
  void* to;
  const void* from;
  uint64_t to_pitch;
  uint64_t from_pitch;
  uint64_t row_bytes;
  uint64_t count;
} memlease_cuda_rows;

typedef struct memlease_cuda_table {
  uint32_t abi;
  uint32_t size_bytes; /* of this table as the library has it */

  /* "cudaErrorMemoryAllocation (2): out of memory". */
  void (*describe_error)(int32_t error, char* text, size_t text_bytes);
  /* 13000 = 13.0; 0: there is no driver. */
  int32_t (*driver_version)(int32_t* version);
  int32_t (*device_count)(int32_t* count);
  int32_t (*describe_device)(int32_t ordinal, memlease_cuda_device* device);

  /* ---- The daemon's half. */
  /* A multiple of 2 MiB, all zero when it returns. */
  int32_t (*allocate)(int32_t ordinal, uint64_t size_bytes, void** address,
                      memlease_cuda_handle* handle);
  /* No importer has it open any more. */
  int32_t (*deallocate)(int32_t ordinal, void* address, const memlease_cuda_handle* handle);

  /* ---- The client's half. */
  int32_t (*open_memory)(int32_t ordinal, const memlease_cuda_handle* handle, void** address);
  int32_t (*close_memory)(int32_t ordinal, void* address, const memlease_cuda_handle* handle);

  /* A stream is a cudaStream_t: a handle, of whatever context of the device, or 1 (legacy), 2 (the
     calling thread's), which are those of the device's primary context. */
  /* Not of one that is capturing. */
  int32_t (*stream_device)(void* stream, int32_t* ordinal);
  int32_t (*is_capturing)(int32_t ordinal, void* stream, int32_t* capturing);
  /* One that does not synchronise with the legacy stream. Lives as long as the process. */
  int32_t (*create_stream)(int32_t ordinal, void** stream);
  /* Blocks until the device has nothing to do. Answers FIRST_OF_CAPTURE to LAST_OF_CAPTURE, and has
     not waited, while a graph is being captured. If that is in a stream that synchronises with the
     legacy one, it is not touched; any other capture on the device is lost by asking: CUDA has no
     question whether there is one. */
  int32_t (*synchronize_device)(int32_t ordinal);

  /* Can streams write and wait for words of registered pages, those registered for reading, too? */
  int32_t (*orders_by_words)(int32_t ordinal, int32_t* does);
  /* The stream writes 8 bytes in registered pages, behind all that it was given before. */
  int32_t (*write_word)(int32_t ordinal, void* word, uint64_t value, void* stream);
  /* What the stream is given from now on runs once the word is no less than the value, whoever has
     written it, a host or a stream. */
  int32_t (*wait_for_word)(int32_t ordinal, const void* word, uint64_t value, void* stream);
  /* An error that stays, if the device has failed for this process. `stream`: one of the caller's
     own. */
  int32_t (*check_device)(int32_t ordinal, void* stream);

  /* An event of this process alone, recorded behind all that the stream was given before. */
  int32_t (*mark)(int32_t ordinal, void* stream, void** mark);
  int32_t (*close_mark)(int32_t ordinal, void* mark);
  /* 0: complete; MEMLEASE_CUDA_NOT_READY. */
  int32_t (*query)(int32_t ordinal, void* mark);
  /* What `after` is given from now on runs behind all that `before` was given until now. */
  int32_t (*order)(int32_t ordinal, void* before, void* after);

  /* Between any two of host and devices, on the stream. From pageable memory it may block. */
  int32_t (*copy)(int32_t ordinal, void* to, const void* from, uint64_t size_bytes, void* stream);
  /* The same of rows; after an error some may have been copied. */
  int32_t (*copy_rows)(int32_t ordinal, const memlease_cuda_rows* rows, void* stream);
  /* Locks the caller's pages in memory, for copies on every device: one to or from them does not
     block, and needs no staging. They stay mapped until they are unregistered, before which all
     copies there are done. `read_only`: nothing is ever copied to them, and the caller may not
     write them; NOT_SUPPORTED where a device cannot have that. */
  int32_t (*register_pages)(int32_t ordinal, void* pages, uint64_t size_bytes, int32_t read_only);
  /* May wait for the device. */
  int32_t (*unregister_pages)(int32_t ordinal, void* pages);
  /* -1: not a device's own memory. */
  int32_t (*pointer_device)(const void* address, int32_t* ordinal);

  /* ---- For a checker of races, and null without one: what one process tells another by means that
     the checker does not see. `release` before it becomes visible, `acquire` after it was seen;
     `exited` once the process is known to have ended; `saw`: what a stream has written to the word
     is over. */
  void (*release)(uint64_t key, uint64_t value);
  void (*acquire)(uint64_t key, uint64_t value);
  void (*exited)(uint32_t pid);
  void (*saw)(const void* word);
} memlease_cuda_table;

/* The one symbol of the library. Null if it cannot serve a caller of this ABI. */
const memlease_cuda_table* memlease_cuda_plugin(uint32_t abi);
typedef const memlease_cuda_table* (*memlease_cuda_plugin_function)(uint32_t abi);

/* NOLINTEND(modernize-use-using, readability-identifier-naming) */
#ifdef __cplusplus
}
#endif
